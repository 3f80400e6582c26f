"""From words to a metric query, without a model: every word of a question is accounted for, or it is not answered."""
