"""What the assistant itself says, in English and Chinese."""

from collections.abc import Mapping

_TEXTS: Mapping[str, tuple[str, str]] = {
    "greeting": (
        "Hello. Ask me about {topics}, for example: {example}",
        "你好。可以问我：{topics}。例如：{example}",
    ),
    "thanks": ("You are welcome.", "不客气。"),
    "help": (
        "I answer questions about {topics}, split by {splits}. For example: {example}. You can also give me SQL to "
        "run, to mend or to explain.",
        "我可以回答关于{topics}的问题，可按{splits}拆分。例如：{example}。也可以给我 SQL，让我运行、修复或解释。",
    ),
    "which_meaning": ("“{phrase}” can mean several things. Which one?", "“{phrase}”有多种含义，请选择："),
    "which_one": ("This can mean several things. Which one?", "这个问题有多种含义，请选择："),
    "which_period": ("This needs a period. Which one?", "这个问题需要时间范围，请选择："),
    "nearest": (
        "I did not understand “{words}”. Did you mean one of these?",
        "没有理解“{words}”。您是想问以下之一吗？",
    ),
    "does_not_go": (
        "“{words}” does not go with what is asked. Did you mean one of these?",
        "“{words}”与所问内容不匹配。您是想问以下之一吗？",
    ),
    "cannot_split": (
        "{hint}. These can be answered:",
        "{hint}。可以回答以下问题：",
    ),
    "other_choices": (
        "This could not be answered ({hint}). These can be:",
        "这个问题无法直接回答（{hint}）。可以回答以下问题：",
    ),
    "needs_model": (
        "This question needs a language model, and none is configured. Not understood without one: {words}.",
        "这个问题需要语言模型，而目前没有配置。无模型时没有理解的词：{words}。",
    ),
    "not_understood": (
        "I could not turn this into a query that can be trusted: {hint}",
        "无法把这个问题转换成可信的查询：{hint}",
    ),
    "read_only": ("I only read data; I change nothing.", "我只能查询数据，不能修改任何内容。"),
    "other_tenant": ("I answer about your own data alone.", "我只能回答您自己的数据。"),
    "no_such_data": ("There is no such data here.", "这里没有这样的数据。"),
    "not_a_question": ("The rules hold for everybody; no text changes them.", "规则对所有人有效，任何文字都不能改变。"),
    "empty_question": ("There is no question.", "没有问题。"),
    "question_too_long": (
        "A question has at most {limit} characters.",
        "问题最多 {limit} 个字符。",
    ),
    "no_data": ("You have no data here.", "您在这里没有数据。"),
    "no_such_question": (
        "This session has no such question, or it was too long ago.",
        "本会话没有这个问题，或者时间太久。",
    ),
    "no_such_choice": ("There is no such choice.", "没有这个选项。"),
    "nothing_to_explain": ("There is no SQL to explain.", "没有可以解释的 SQL。"),
    "refused_sql": ("This SQL is not run: {hint}", "不会运行这条 SQL：{hint}"),
    "fixed": ("Mended: {changes}.", "已修复：{changes}。"),
    "was_right": ("It was right as it is.", "这条 SQL 本来就是正确的。"),
    "not_fixed": ("I could not mend it: {hint}", "无法修复：{hint}"),
    "database_failed": (
        "The database does not answer at present; the question is on record. Ask again in a moment.",
        "数据库目前没有响应；问题已记录，请稍后再试。",
    ),
    "audit_failed": (
        "The audit trail cannot be written, so nothing may be answered.",
        "审计记录无法写入，因此不能回答。",
    ),
    "overloaded": ("Too many questions at once. Ask again in a moment.", "当前问题太多，请稍后再试。"),
    "last_7_days": ("last 7 days", "最近7天"),
    "this_month": ("this month", "本月"),
    "last_month": ("last month", "上个月"),
    "last_90_days": ("last 90 days", "最近90天"),
}


def say(key: str, language: str, **values: object) -> str:
    """A text in a language, with its places filled."""
    en, zh = _TEXTS[key]
    return (zh if language == "zh" else en).format(**values)


def says(key: str) -> bool:
    """Whether there is a text of this name: codes of refusals that people see have one."""
    return key in _TEXTS
