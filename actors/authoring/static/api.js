// The page's side of the HTTP interface. Addresses are relative: the token is in the page's own.

/** What the server, or the way to it, refused. `field` names the form's field that it is about, if one is. */
export class ApiError extends Error {
  constructor(message, field = "") {
    super(message);
    this.field = field;
  }
}

async function ask(path, options = {}) {
  let response;
  try {
    response = await fetch(`api/${path}`, options);
  } catch {
    throw new ApiError("corral author does not answer any more: is it still running?");
  }
  if (!response.ok) {
    const answer = await response.json().catch(() => ({}));
    throw new ApiError(answer.error ?? `corral author answered ${response.status}`, answer.field);
  }
  return response;
}

async function send(path, draft) {
  return ask(path, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(draft),
  });
}

const json = async (response) => (await response).json();

export const source = () => json(ask("source"));
export const refresh = () => json(ask("refresh", { method: "POST" }));
export const pick = (draft) => json(send("pick", draft));
export const test = (draft) => json(send("test", draft));
export const toml = (draft) => json(send("toml", draft));
export const save = (draft) => json(send("save", draft));

/** A frame as an ImageBitmap. */
export async function frame(number) {
  const response = await ask(`frames/${number}.png`);
  return createImageBitmap(await response.blob());
}

/** The pixels in range as an ImageBitmap, and the box [left, top, right, bottom] that it covers. */
export async function mask(draft) {
  const response = await send("mask", draft);
  return { box: JSON.parse(response.headers.get("x-box")), image: await createImageBitmap(await response.blob()) };
}
