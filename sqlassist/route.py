"""Which way a question goes before anything is looked up: SQL, small talk, or what can never be answered.

Patterns, and nothing relies on them: they spare a model's time and give a clear no. What they miss still meets the
guard, the tenant's account and the read-only executor.
"""

import re
from enum import StrEnum

import attrs

from sqlassist.language import folded
from sqlassist.messages import Refusal


class Route(StrEnum):
    """How a question is answered."""

    EXACT = "exact_cache"
    """It was decided before, today, with the same words."""
    VERIFIED = "verified_query"
    METRIC = "metric_query"
    """Compiled from the semantic layer, without a model."""
    RAW_SQL = "raw_sql"
    """SQL that a model, or the asker, wrote."""
    FIX_SQL = "fix_sql"
    EXPLAIN = "explain"
    CHOICE = "choice"
    SMALL_TALK = "small_talk"
    NOT_ANSWERABLE = "not_answerable"


class Complexity(StrEnum):
    """Whether a model is to think before it writes."""

    SIMPLE = "simple"
    COMPLEX = "complex"


@attrs.frozen
class SmallTalk:
    """Nothing was asked about data."""

    kind: str
    """`greeting`, `thanks` or `help`."""


_GREETING = re.compile(
    r"(hi|hello|hey|good (morning|afternoon|evening)|你好|您好|嗨|哈喽|早上好|下午好|晚上好)( there| everyone)?"
)
_THANKS = re.compile(
    r"(thanks?( you)?( (very|so) much| a lot)?|thx|great|ok(ay)?|good|cool|谢谢(你|您)?|多谢|好的|明白了|收到)"
)
_HELP = re.compile(
    r"(help|what can (you|i) (do|ask)( you)?( here)?|how do(es)? (this|it|you) work|who are you|"
    r"你(能|可以|会)(做|回答|干)(什么|啥|哪些问题)|帮助|怎么用|你是谁|能问(你)?什么)"
)
_WRITES = re.compile(
    r"\b(drop (the )?(table|database|view|schema)|truncate\b|delete\b|insert (a |an |new |into\b)|"
    r"update (the )?\w+ set|"
    r"alter table|create (a |the )?(table|user|index|view)|grant\b|revoke\b|wipe\b|erase\b|rename (the )?table|"
    r"(refund|ban|unban|kick|mute) (the |a |all |every |this |that )?(players?|users?|accounts?|him|her|them)\b|"
    r"(set|change|raise|lower) (the |all |every )?.{1,30} to (zero|\d+))|"
    r"删除|删掉|清空|修改|更改|改成|插入|写入|建表|封号|封禁|解封|发放|退款|"
    r"(把|将).{0,20}(设为|设成|改为|调到|重置)"
)
_OTHERS = re.compile(
    r"\b(tenants?|customers?|companies|clients?|studios?)('s)?\s*(\d+|[a-z]?\d+)\b|"
    r"\btenant[-_ ]?\w+\b|\b(other|another|all|every|each|different) (tenant|customer|client|compan|studio)\w*|"
    r"(其他|其它|别的|所有|另一个|全部)(租户|客户|公司|厂商)|(租户|客户)\s*[0-9a-z一二三四五六七八九十]+"
)
_SECRETS = re.compile(
    r"\b(passwords?|passwd|credentials?|api[- ]?keys?|secret(s| key)?|private key|connection string|credit cards?|"
    r"card numbers?|home address(es)?|phone numbers?|e-?mail(s| address(es)?)?|id numbers?|ip address(es)?)\b|"
    r"密码|口令|密钥|凭证|银行卡|信用卡|身份证|手机号|电话号码|邮箱|住址"
)
_ORDERS = re.compile(
    r"\b(ignore|disregard|forget|bypass|override|disable) "
    r"(all |any |every |the |your |my |these |those |previous |prior )*"
    r"(rules?|instructions?|prompts?|restrictions?|limits?|guards?|filters?|safety|permissions?)|"
    r"\b(you are now|pretend (to be|you are)|act as|system prompt|jailbreak|developer mode)\b|"
    r"(忽略|无视|忘记|绕过|跳过|关闭|取消).{0,8}(规则|指令|限制|提示|安全|权限|过滤)|系统提示词|你现在是"
)
_STATEMENT = re.compile(r"\s*(/\*.*?\*/\s*|--[^\n]*\n\s*)*\(*\s*(select|with)\b", re.IGNORECASE | re.DOTALL)
_ANY_STATEMENT = re.compile(
    r"\s*(insert\s+into\b|replace\s+into\b|update\s+[\w.`\"]+\s+set\b|delete\s+from\b|with\s+\w+\s+as\s*\(|"
    r"(drop|create|alter|truncate)\s+(or\s+replace\s+)?(temporary\s+)?(table|database|schema|view|user|index|procedure)\b|"
    r"(grant|revoke)\b.+\b(on|to|from)\b|show\s+(full\s+)?(tables|databases|schemas|grants|columns|variables|status|index|"
    r"create|processlist)\b|(describe|desc|explain)\s+(select\b|[\w.`\"]+\s*;\s*$)|call\s+[\w.]+\s*\(|load\s+data\b|"
    r"set\s+(global|session|password|@)|handler\s+\w+\s+(open|read)|lock\s+tables\b|kill\s+\d+|use\s+\w+\s*;|"
    r"select\s+[\d@'(*])",
    re.IGNORECASE | re.DOTALL,
)
# `select the best server from all` is words: SQL has marks, or one column and one table and then a clause or the end
_IS_SQL = re.compile(
    r"\bfrom\b.*[*(),=<>;`\"]|[*(),=`\"].*\bfrom\b|^\s*select\s+\d|"
    r"^\s*select\s+(distinct\s+)?[\w.]+\s+from\s+[\w.]+\s*(where\b|group\b|order\b|limit\b|;|$)",
    re.IGNORECASE | re.DOTALL,
)
_FENCE = re.compile(r"```(?:sql)?\s*(.*?)```", re.IGNORECASE | re.DOTALL)
_FIX = re.compile(
    r"\b(fix|repair|correct|mend|debug|what('s| is) wrong|doesn'?t work|error)\b|修复|修正|改正|纠正|报错|错误|哪里错",
    re.IGNORECASE,
)
_COMPLEX = re.compile(
    r"\b(why|cohort|percentile|median|quartile|rolling|moving average|cumulative|running total|consecutive|streak|"
    r"first time|never|who (did|have|had|never)|but (not|never|no)|within \d+ (hours?|days?|weeks?) (of|after)|"
    r"in a row|correlat\w+|"
    r"for each .* the (top|first|last)|after their|before their|between their)\b|"
    r"为什么|中位数|百分位|累计|滚动|移动平均|连续|首次|从未|但(没|未|不)|之后\d*天?内|相关性|每个.{1,12}(前|最高|最低)的"
)
_FOLLOW_UP = re.compile(
    r"(and|but|or|what about|how about|same|only|just|now|instead|then|also)\b.*|"
    r".*\b(it|them|those|that one|these|its)\b.*|"
    r"(那|还有|换成|改成|只看|同样|再看|以及|然后).*|.*(它|它们|这些|那些|其中).*|.*呢"
)
MANY_WORDS = 30  # a sentence as long holds a second condition nearly always


def small_talk(text: str) -> SmallTalk | None:
    """What a text without a question is."""
    plain = folded(text)
    for kind, pattern in (("greeting", _GREETING), ("thanks", _THANKS), ("help", _HELP)):
        if pattern.fullmatch(plain):
            return SmallTalk(kind)
    return None


def never_answerable(text: str, tenant: str, known_names: frozenset[str] = frozenset()) -> Refusal | None:
    """Why a question cannot be answered whatever the data: it wants to write, other people's rows, or secrets.

    Args:
        text: The question.
        tenant: Who asks may name himself.
        known_names: Folded names of the semantic layer: a metric may be called like anything.
    """
    plain = folded(text)
    for name in sorted(known_names, key=len, reverse=True):
        if len(name) > 3 and name in plain:
            plain = plain.replace(name, " ")
    if _ORDERS.search(plain):
        return Refusal("not_a_question", "", "the rules hold for everybody, and no text changes them")
    others = _OTHERS.search(plain)
    if others is not None and folded(tenant) not in others.group(0).replace(" ", ""):
        return Refusal("other_tenant", others.group(0)[:80], "answers are about your own data alone")
    if _WRITES.search(plain):
        return Refusal("read_only", "", "this assistant reads; it changes nothing")
    secrets = _SECRETS.search(plain)
    if secrets is not None:
        return Refusal("no_such_data", secrets.group(0)[:80], "secrets and personal contact data are not kept here")
    return None


def statement_in(text: str) -> str | None:
    """The SQL that a text consists of, or holds between fences; None where it is words."""
    fenced = _FENCE.search(text)
    if fenced is not None and (_ANY_STATEMENT.match(fenced.group(1)) or _STATEMENT.match(fenced.group(1))):
        return fenced.group(1).strip()
    if _STATEMENT.match(text) and _IS_SQL.search(text):
        return text.strip()
    return None


def looks_like_statement(text: str) -> bool:
    """True for SQL of any kind, writes included: words of people seldom begin so."""
    return _ANY_STATEMENT.match(text) is not None or statement_in(text) is not None


def wants_fix(text: str) -> bool:
    """True where the words around a statement ask to mend it."""
    return bool(_FIX.search(_FENCE.sub(" ", text)))


def complexity_of(text: str) -> Complexity:
    """Simple or complex, by marks of questions that need more than one step."""
    plain = folded(text)
    if _COMPLEX.search(plain) or len(plain.split()) > MANY_WORDS or len(plain) > 160:
        return Complexity.COMPLEX
    return Complexity.SIMPLE


def looks_like_follow_up(text: str) -> bool:
    """True where a text leans on what was asked before it."""
    plain = folded(text)
    return len(plain) < 80 and _FOLLOW_UP.fullmatch(plain) is not None
