"""Files of questions with their right answers: TOML → `QuestionSet`, every mistake at once. docs/assistant.md."""

from pathlib import Path

from actors.configuration import Problem, ScenarioError, line_of, read_toml, structured
from sqlassist.evaluate import QuestionSet, set_problems


def parse_question_set(source: bytes, file: str) -> QuestionSet:
    """Read a set of questions.

    Raises:
        ScenarioError: with every mistake, each with its file, line and key path.
    """
    questions, problems = structured(read_toml(source, file), QuestionSet, source=source, file=file)
    if questions is not None:
        lines = source.decode("utf-8-sig").splitlines()
        problems = [Problem(text, path, file, line_of(lines, path)) for text, path in set_problems(questions)]
        if not problems:
            return questions
    raise ScenarioError(problems)


def load_question_set(path: Path) -> QuestionSet:
    """As `parse_question_set`, of a file.

    Raises:
        ScenarioError: it cannot be read, or is wrong.
    """
    try:
        source = path.read_bytes()
    except OSError as error:
        raise ScenarioError([Problem(f"cannot be read: {error.strerror}", "$", str(path))]) from error
    return parse_question_set(source, str(path))
