"""The general words of English questions. Whatever is in no list, and no name of the layer, is not understood."""

from collections.abc import Mapping

from sqlassist.parsing.items import Kind

PHRASES: Mapping[tuple[Kind, str], str] = {
    # Nothing here may change which rows count or what is computed.
    # What is made of fillers and still says something: it is left over.
    (Kind.LEFTOVER, ""): """
        drop table | drop database | drop view | drop column | delete from | insert into | select from
        | alter table | truncate table | what does | what do | mean by | meaning of | at least once
        | more than once
    """,
    # Not before a split: how many servers there are is another number than any of theirs.
    # Of several values or times: all of them as one.
    (Kind.FILLER, "together"): """
        together | combined | in total | overall | altogether | all together | in all | sum | sum of | total
        | totals | total of | total amount of | added up | all in all | taken together | summed up
        | put together | the total
    """,
    # As far as time is not cut: a running sum is another thing.
    (Kind.FILLER, "cumulative"): "cumulative | accumulated | cumulated",
    # Of what is counted once only.
    (Kind.FILLER, "distinct"): "distinct | unique | different",
    # Of money or the like, and never of how many there are.
    (Kind.FILLER, "amount"): """
        amount | amounts | amount of | value | values | value of | the amount of | worth | worth of
    """,
    (Kind.FILLER, "count"): """
        number of | the number of | count | counts | count of | how many | total number of | how many of
        | how many different
    """,
    (Kind.FILLER, ""): """
        just curious | both | show both | both numbers | both of them | equal to | equals | equal | = | held
        | launch | launched | started | run | runs | ran | until today | up to today | until now | up to now
        | one number | in one | pull | pull up | a | an | the | of | in | on | at | for | from | to us | with
        | during | within | through | via | into | as | is | are | was | were | be | been | being | do | does
        | did | done | has | have | had | having | can | could | would | will you | should | i | we | you | they
        | it | its | our | ours | your | their | there | that | this | these | those | who | whose | me | please
        | pls | hi | hello | hey | thanks | thank you | ok | okay | well | also please | show | show me
        | show us | give | give me | give us | tell | tell me | tell us | let me | let us | let me see
        | let me know | let us see | get | get me | find | find me | find out | list | display | see | view
        | print | return | calculate | compute | fetch | want | want to | want to know | want to see
        | would like | would like to know | would like to see | like to | like to know | like to see | need
        | need to | need to know | need to see | know | look | look at | look up | check | report | report on
        | chart | plot | graph | table | table of | a table of | figure | figures | number | numbers | stats
        | statistics | data | result | results | metric | metrics | how | how much | how is | how was | how are
        | how were | how big | how high | how large | how long | how did | what is | what are | what was
        | what were | what's | what did | when | then | come | comes | came | coming | come from | comes from
        | came from | coming from | came in | come in | make | makes | made | making | generate | generates
        | generated | generating | bring | brings | brought | brought in | bring in | earn | earns | earned
        | take | took | taken | took in | take in | take place | took place | happen | happened | occur
        | occurred | saw | seen | recorded | log | logged | reach | reached | achieve | achieved | produce
        | produced | deliver | delivered | contribute | contributed | look like | looked like | looked | so far
        | to date | ever | of all time | all time | in the whole period | by us | currently | now | right now
        | at the moment | here | exactly | just | only | simply | roughly | about how | go | went
        | get from | got | gotten | get in | got from | performing | there were | there was | were there
        | was there | are there | is there | ones | time | times | period | business | belonging to | belong to
        | located in | out of | among | amongst | in terms of | measured by | measured in | as measured by
        | when it comes to | if any | actual | actually | quick | quickly | a quick look at | overview of
        | summary of | me the | us know
    """,
    (Kind.AND, ""): """
        and | as well as | plus | together with | along with | & | , | ; | and also | and the | and then
    """,
    (Kind.OR, ""): "or | or else | either | /",
    (Kind.RANGE, ""): "to | until | till | ~ | through to | up until",
    (Kind.BETWEEN, ""): "between | from between | ranging from | in the range",
    (Kind.BY, ""): """
        each of the | each of our | down by | for each of the | on each of the | in each of the | by | per
        | each | every | for each | for every | in each | on each | of each | in every | of every | from each
        | at each | from every | on every | by each | by every | across | broken down by | break down by
        | broken out by | breakdown by | breakdown per | split by | split up by | grouped by | group by
        | divided by | segmented by | separated by | separately by | separately for each | sliced by | cut by
        | as a function of | for all the different | across the different | across different | by the | on a per
        | for the different | for different | for the individual | across each | distributed by
        | distributed across | distributed over | vary by | varies by | differ by | differs by | differ between
        | distribution by | distribution over | distribution across | distribution per | based on the
        | according to | depending on
    """,
    (Kind.RESPECTIVELY, ""): """
        respectively | separately | individually | one by one | each on its own | side by side
    """,
    (Kind.WHICH, ""): """
        where | which | which one | which ones | in which | on which | which of the | which one of the
        | for which | which of our | at which | in what | on what | at what | from which | through which
    """,
    (Kind.WHAT, ""): "what",
    (Kind.ALL, ""): """
        all | all the | all of the | across all | across all the | over all | all our | for all | on all
        | in all the | from all | of all | any | whole | entire | in the whole | in the entire
    """,
    (Kind.NOT, ""): """
        non | but | except | except for | excluding | exclude | excludes | without | not | not in | not on
        | not from | not via | not including | other than | but not | but not in | but not on | but not from
        | and not | apart from | outside | outside of | besides | aside from | leaving out | leave out
        | ignoring | ignore | minus | everything but | everywhere but | all but | everywhere except
        | everything except | all except | with the exception of | anything but | not counting | that are not
        | that is not | who are not | which are not | disregarding | omitting
    """,
    (Kind.SUPERLATIVE, "high"): """
        most often | the most often | most frequently | fastest | highest | most | largest | biggest | greatest
        | maximum | max | the most | the highest | longest | peak | the peak | strongest | maximal | leading
        | leads | led | lead in | leads in | leads the | led in | lead
    """,
    (Kind.SUPERLATIVE, "low"): """
        least often | the least often | least frequently | lowest | least | fewest | smallest | minimum | min
        | the least | the lowest | shortest | weakest | minimal
    """,
    (Kind.NOT, "after"): "not included | excluded | not counted | left out | aside",
    (Kind.SUPERLATIVE, "best"): "best | best performing | best-performing | most successful | winning | best for",
    (Kind.SUPERLATIVE, "worst"): "worst | worst performing | worst-performing | poorest | least successful",
    (Kind.SUPERLATIVE, "top"): "top | the top",
    (Kind.SUPERLATIVE, "bottom"): "bottom | the bottom",
    (Kind.RANKING, "high"): """
        order them | order them all | rank them | sort them | rank them all | order | rank | ranks | ranked
        | ranking | rankings | ranking of | leaderboard | league table | sorted | sort | order by | ordered by
        | sorted by | sort by | ranked by | rank by | ranking by | descending | in descending order
        | from highest to lowest | from high to low | highest first | highest to lowest | largest first
        | from best to worst | from most to least | sorted descending | in order of | biggest first
        | from largest to smallest | from biggest to smallest | most first | sorted from highest to lowest
    """,
    (Kind.RANKING, "low"): """
        ascending | in ascending order | from lowest to highest | from low to high | lowest first
        | lowest to highest | smallest first | sorted ascending | from smallest to largest | from least to most
    """,
    (Kind.COMPARATOR, ">"): """
        more than | above | greater than | higher than | larger than | bigger than | exceeding | exceeds
        | exceed | exceeded | over | longer than | in excess of | > | beyond | better than | is above
        | was above | were above
    """,
    (Kind.COMPARATOR, ">="): """
        at least | no less than | not less than | no fewer than | not fewer than | minimum of | a minimum of
        | >= | ≥ | not below | no lower than | from at least
    """,
    (Kind.COMPARATOR, "<"): """
        less than | fewer than | below | under | lower than | smaller than | shorter than | < | worse than
        | is below | was below | were below | short of
    """,
    (Kind.COMPARATOR, "<="): """
        at most | no more than | not more than | up to | maximum of | a maximum of | <= | ≤ | not above
        | no higher than | not over | not exceeding
    """,
    (Kind.AND_MORE, ">="): """
        or more | or higher | or above | or over | or greater | and above | and over | and higher | and up
        | or up | upwards | plus more | or better | + | and more | or longer | or later
    """,
    (Kind.AND_MORE, "<="): """
        or less | or fewer | or lower | or below | or under | and below | and under | and lower | or smaller
    """,
    (Kind.SHARE, ""): """
        share | shares | share of | shares of | percentage of | percentages | percent of | per cent of
        | proportion | proportion of | proportions | portion | portion of | fraction | fraction of | what part
        | what part of | part of | how much of | what share | what share of | what percentage of
        | what percent of | what proportion | what proportion of | what portion of | what fraction of
        | which share | which share of | the share | percentage share | percentage share of | relative share
        | relative share of | contribution to | contribution of | contribute to | contributes to
        | as a percentage of | as a share of | what part does | as a share | as shares | percentage of the total
        | share of the total | share of total | percent of total | percentage of total | of the total
        | what part of the total | how many percent of | which part of | which percentage of
        | what percentage of all | what share of all | percentage breakdown | percentage breakdown of
    """,
    # A part of the whole, or how much something grew.
    (Kind.SHARE, "percent"): """
        percentage | percent | per cent | what percentage | what percent | how many percent | in percent
        | by what percentage | as a percentage | as percentage | by how many percent | by what percent
        | in percentage
    """,
    (Kind.BREAKDOWN, ""): """
        break | breakdown | breakdown of | distribution | distribution of | split | broken down | break down
        | divided | distributed | spread
    """,
    (Kind.AVERAGE, ""): """
        average | averages | mean | avg | on average | averaged | average of | the average | mean of | typical
        | an average
    """,
    (Kind.BUCKET, "day"): """
        daily | day by day | day-by-day | per day | each day | every day | by day | a day | for each day
        | for every day | by date | per date | on each day | on every day | each single day | by the day
        | day to day | per calendar day | on a daily basis | everyday
    """,
    (Kind.BUCKET, "week"): """
        weekly | week by week | per week | each week | every week | by week | a week | for each week
        | by calendar week | on a weekly basis
    """,
    (Kind.BUCKET, "month"): """
        monthly | month by month | per month | each month | every month | by month | a month | for each month
        | by calendar month | on a monthly basis
    """,
    (Kind.BUCKET, "quarter"): """
        quarterly | quarter by quarter | per quarter | each quarter | every quarter | by quarter | a quarter
        | for each quarter
    """,
    (Kind.BUCKET, "year"): """
        yearly | annual | annually | year by year | per year | each year | every year | by year | a year
        | per annum | for each year
    """,
    (Kind.BUCKET, "hour_of_day"): """
        hourly | by hour | per hour | each hour | every hour | by hour of day | by hour of the day
        | per hour of day | per hour of the day | by time of day | by time of the day | for each hour
        | for each hour of the day | each hour of the day | every hour of the day | by the hour | hour by hour
        | over the day | throughout the day | across the hours of the day | across the day
    """,
    (Kind.BUCKET, "day_of_week"): """
        by weekday | per weekday | each weekday | by day of week | by day of the week | per day of week
        | per day of the week | for each weekday | for each day of the week | each day of the week
        | every day of the week | by days of the week | by weekdays | across the week | on each day of the week
        | on each weekday | across weekdays | over the days of the week | across the days of the week
    """,
    (Kind.TIME_UNIT, "day"): "day | days | date | dates | calendar day | single day",
    (Kind.TIME_UNIT, "week"): "week | weeks | calendar week",
    (Kind.TIME_UNIT, "month"): "month | months | calendar month",
    (Kind.TIME_UNIT, "quarter"): "quarter | quarters",
    (Kind.TIME_UNIT, "year"): "year | years",
    (Kind.TIME_UNIT, "hour_of_day"): """
        hour | hours | hour of day | hour of the day | hours of the day | time of day | time of the day
        | hour in the day
    """,
    (Kind.TIME_UNIT, "day_of_week"): """
        weekday | weekdays | day of week | day of the week | days of the week | day in the week | days of week
    """,
    (Kind.TREND, ""): """
        move | moved | moving | trend | trends | over time | trend of | trending | the trend | development
        | development of | develop | developed | evolve | evolved | evolution | evolution of | time series
        | course of | history of | across time | progress | progressed | progression | curve | trend over time
    """,
    (Kind.COMPARE, ""): """
        than on | than for | than the | vs | vs. | versus | compared with | compared to | compare | compares
        | compared | comparing | comparison | comparison of | comparison between | compared against | against
        | relative to | in comparison with | in comparison to | as compared to | as compared with | compare to
        | compare with | compares to | compares with | compare between | difference between
        | the difference between | next to | stack up against | than in | than | versus the | comparing to
    """,
    # They need a `than`.
    (Kind.COMPARE, "more"): """
        more | higher | lower | better | longer | greater | fewer | less | worse | shorter | bigger | smaller
    """,
    (Kind.GROWTH, "any"): """
        by how much | by how much did | change | changes | change in | changed | change of | rate of change
        | development from | increase or decrease | difference | evolve from | gain or loss | delta
        | percent change | percentage change
    """,
    (Kind.GROWTH, "up"): """
        growth | growth of | growth in | growth rate | growth rate of | grow | grew | grown | growing | increase
        | increases | increased | increase in | increasing | rise | rose | risen | gain | gained | gains
        | gain in | improve | improved | improvement | go up | went up | gone up | climb | climbed
    """,
    (Kind.GROWTH, "down"): """
        decrease | decreases | decreased | decrease in | decline | declined | declines | decline in | drop
        | dropped | drops | drop in | fall | fell | fallen | shrink | shrank | shrunk | lose | lost | loss
        | worsen | worsened | go down | went down | gone down | decreasing | declining
    """,
    # A single day beside the same weekday before it.
    (Kind.OVER, "same_weekday"): """
        the same day a week earlier | the same day last week | the same day the week before
        | the same weekday last week | the same day one week earlier | the same day of last week
        | the same day a week before | the same day a week ago | seven days before | seven days earlier
        | 7 days before | 7 days earlier | a week earlier | one week earlier
    """,
    (Kind.OVER, "year"): """
        the same period last year | the same period of last year | same period last year | a year earlier
        | this time last year
        | a year before | one year earlier | the same month last year | the same time last year | a year ago
        | the same month a year ago | year over year | year-over-year | yoy | year on year | year-on-year | y/y
        | the year before that | the same period a year ago
    """,
    (Kind.OVER, "month"): "month over month | month-over-month | mom | month on month | month-on-month | m/m",
    (Kind.OVER, "week"): "week over week | week-over-week | wow | week on week | week-on-week | w/w",
    (Kind.OVER, "quarter"): """
        quarter over quarter | quarter-over-quarter | qoq | quarter on quarter | quarter-on-quarter
    """,
    (Kind.OVER, "day"): "day over day | day-over-day | dod | day on day | day-on-day",
    (Kind.OVER, "previous"): """
        the period before | previous period | the previous period | preceding period | the preceding period
        | prior period | the prior period | period over period | the one before | the period before it
        | the one before it | before that | the time before | the same time before
    """,
    (Kind.ENTITY, ""): "people | anyone | anybody | somebody | someone | everybody | everyone",
    (Kind.FOLLOW_UP, ""): """
        what about | how about | and what about | and how about | and for | and in | and on | what of | now for
        | now by | now in | instead | and now | same for | the same for | same by | the same by | the same
        | the same in | same in | only for
    """,
    (Kind.ADDED, ""): "also | too | as well | additionally | in addition | also show | add",
}

NUMBERS: Mapping[str, int] = {
    word: number
    for number, word in enumerate(
        [
            "zero",
            "one",
            "two",
            "three",
            "four",
            "five",
            "six",
            "seven",
            "eight",
            "nine",
            "ten",
            "eleven",
            "twelve",
            "thirteen",
            "fourteen",
            "fifteen",
            "sixteen",
            "seventeen",
            "eighteen",
            "nineteen",
            "twenty",
        ]
    )
} | {"thirty": 30, "forty": 40, "fifty": 50, "sixty": 60, "seventy": 70, "eighty": 80, "ninety": 90, "a dozen": 12}
SCALES: Mapping[str, int] = {"hundred": 100, "thousand": 1000, "k": 1000, "million": 1_000_000, "m": 1_000_000}
PERCENT = ("%", "percent", "per cent", "pct")

UNITS: Mapping[str, tuple[str, ...]] = {
    "USD": ("$", "usd", "us$", "dollars", "dollar", "us dollars", "bucks"),
    "EUR": ("€", "eur", "euro", "euros"),
    "CNY": ("¥", "cny", "rmb", "yuan"),
    "minutes": ("minutes", "minute", "min", "mins"),
    "seconds": ("seconds", "second", "sec", "secs"),
    "hours": ("hours",),
    "ms": ("ms", "milliseconds", "millisecond"),
}
"""A layer's unit → how people write it behind a number."""

BETWEEN_WORDS = frozenset(
    {"was", "were", "is", "are", "has", "have", "had", "been", "being", "who", "that", "which", "did", "do", "the", "a"}
    | {"an", "of", "our", "there", "all"}
)
"""What may stand between the words of a name: `money was made`."""

TIME_WORDS = [
    "january",
    "february",
    "march",
    "april",
    "august",
    "september",
    "october",
    "november",
    "december",
    "yesterday",
    "monday",
    "tuesday",
    "wednesday",
    "thursday",
    "friday",
    "saturday",
    "sunday",
    "previous",
    "quarter",
    "current",
]
"""What time is written with, beside the phrases above: a typing mistake may be one of these."""
