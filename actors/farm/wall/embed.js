// The Ask tab alone, inside another platform's page: `embed.html#ticket=…` (and `&lang=zh`).

import { useTicket } from "./api.js";
import { fill, h } from "./dom.js";
import { applyTheme, theme } from "./theme.js";
import { openAsk } from "./view-ask.js";
import { setLanguage, t } from "./words.js";

const given = new URLSearchParams(location.hash.slice(1));
const root = document.getElementById("main");
applyTheme(theme());
if (given.has("lang")) setLanguage(given.get("lang"));
history.replaceState(null, "", location.pathname);
document.title = t("tab.ask");
if (given.get("ticket")) {
  useTicket(given.get("ticket"));
  openAsk(root, { embedded: true });
} else fill(root, h("p", { class: "empty", role: "alert" }, t("no_ticket")));
document.body.dataset.ready = "true";
