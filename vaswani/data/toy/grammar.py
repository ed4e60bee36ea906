"""The embedded English-German corpus, drawn at random from a small grammar that makes both languages at once.

The words are in `nouns.py`, `adjectives.py`, `verbs.py` and `lexicon.py`. `phrases.py` and `syntax.py` know the two
languages' inflection and word order. `draw.py` draws clauses; here `Grammar` joins them to sentences, and `generate`
collects the sets of a corpus.
"""

from dataclasses import replace
from random import Random

from vaswani.data.toy import lexicon, syntax
from vaswani.data.toy.draw import PERSON, Draw, quantified
from vaswani.data.toy.nouns import Noun
from vaswani.data.toy.phrases import ACCUSATIVE, CASES, PLURAL, WHO, noun_phrase
from vaswani.data.toy.syntax import Clause
from vaswani.data.toy.verbs import Verb
from vaswani.data.toy.words import Words
from vaswani.schema import ToyConfig

LONGEST = {1: 14, 2: 20, 3: 26}
"""English words of the longest training sentence at each difficulty."""


def generate(config: ToyConfig) -> dict[str, list[tuple[str, str]]]:
    """Makes the corpus, the same for the same configuration.

    Args:
        config: sizes, difficulty and seed. The sets but "train" do not depend on the number of training pairs.

    Returns:
        English and German sentences of the sets "train", "valid", "test" and "test_long", all of them different;
        every English sentence of "test_long" has more words than any of the others, up to twice as many.
    """
    grammar = Grammar(config.difficulty, Random(config.seed))
    seen: set[str] = set()

    def draw(count: int, long: bool = False) -> list[tuple[str, str]]:
        pairs = []
        while len(pairs) < count:
            pair = grammar.sentence(long)
            words = len(pair[0].split()) / LONGEST[config.difficulty]
            if pair[0] not in seen and (1 < words <= 2 if long else words <= 1):
                seen.add(pair[0])
                pairs.append(pair)
        return pairs

    tests = {"valid": draw(config.test_pairs), "test": draw(config.test_pairs)}
    tests["test_long"] = draw(config.test_pairs, long=True)
    return {"train": draw(config.train_pairs), **tests}


class Grammar:
    """Draws sentences with the words and constructions of a difficulty. `Draw` explains what a mood is."""

    def __init__(self, difficulty: int, random: Random):
        self.difficulty = difficulty
        self.draw = Draw(difficulty, random)
        self.conjunctions = [c for c, (*_, level) in lexicon.CONJUNCTIONS.items() if level <= difficulty]

    def sentence(self, long: bool = False) -> tuple[str, str]:
        """An English and a German sentence; a long one has more clauses."""
        if not long and self.draw.chance(0.2):
            return syntax.finish(self.question(), "?")
        if long:
            count = self.draw.pick((2, 3) if self.difficulty == 1 else (3, 4))
        else:
            count = 1 + self.draw.chance(0.12 * self.difficulty)
        compound = 0.4 if count == 1 else 0.7 if long else 0.2 * (self.difficulty - 1)
        words = self.unit(compound, first=True)
        for _ in range(count - 1):
            words = syntax.coordinate(words, self.draw.pick(("and", "but")), self.unit(compound, first=False))
        return syntax.finish(words)

    def unit(self, compound: float, first: bool) -> Words:
        """A main clause, with a subordinate one by the probability `compound`.

        Only the first unit of a sentence may begin with an adverbial or a subordinate clause.
        """
        mood = self.draw.pick(("past", "present", "present"))
        if not self.draw.chance(compound):
            clause = self.draw.clause(mood)
            may_front = {"time": clause.time, "place": clause.place and clause.verb.aspect == "action"}
            fronts = [front for front, may in may_front.items() if may]
            return syntax.statement(
                clause, self.draw.pick(fronts) if fronts and first and self.draw.chance(0.4) else ""
            )
        kinds = (self.with_conjunction, self.with_conjunction, self.reported, self.purposeful, self.related)
        return self.draw.pick(kinds[: 3 if self.difficulty == 1 else 5])(mood, first)

    # Main clauses with a subordinate clause

    def with_conjunction(self, mood: str, first: bool) -> Words:
        """He works because …; because …, he works."""
        conjunction = self.draw.pick(self.conjunctions)
        inner, outer, _ = lexicon.CONJUNCTIONS[conjunction]
        if not inner or (conjunction.english == "before" and mood == "past"):
            inner = outer = mood
        negatable = conjunction.english in ("because", "although", "if")
        words = syntax.subordinate(conjunction, self.draw.clause(inner, rich=False, negatable=negatable))
        clause = self.draw.clause(outer, rich=False)
        if first and inner != "ability" and self.draw.chance(0.4):
            return syntax.after_subordinate(words, clause)
        return syntax.statement(replace(clause, tail=words))

    def reported(self, mood: str, first: bool) -> Words:
        """He says that …, asks whether …, does not know why …"""
        verb = self.draw.pick(self.draw.reporting)
        subject, _ = self.draw.subject(verb)
        conjunction = Words("that", "dass")
        if "whether" in verb.frame["that"] and ("that" not in verb.frame["that"] or self.draw.chance(0.5)):
            conjunction = self.draw.pick([Words("whether", "ob"), Words("why", "warum")][: self.difficulty])
        inner = "past" if mood == "past" else self.draw.pick(("past", "present"))
        clause = self.draw.clause(inner, rich=self.difficulty > 1)
        dative = self.draw.person(subject) if "dative" in verb.frame else None
        negated = not quantified(subject) and self.draw.chance(0.2)
        tail = syntax.subordinate(conjunction, clause)
        return syntax.statement(Clause(verb, subject, dative=dative, tense=mood, negated=negated, tail=tail))

    def purposeful(self, mood: str, first: bool) -> Words:
        """He goes to the market to buy bread."""
        going = [verb for verb in self.draw.verbs if "to" in verb.frame]
        main = self.draw.clause(mood, False, self.draw.pick(going), negatable=False)
        aims = [
            verb
            for verb in self.draw.verbs
            if verb.aspect == "action" and ("accusative" in verb.frame or "dative" in verb.frame)
        ]
        aim = self.draw.clause("purpose", False, self.draw.pick(aims), (main.subject, PERSON), negatable=False)
        main = replace(main, time=None, frequency=None, manner=None)
        return syntax.statement(replace(main, tail=syntax.purpose(replace(aim, time=None, frequency=None))))

    def related(self, mood: str, first: bool) -> Words:
        """The man who … laughs; he reads the book that …"""
        return self.related_subject(mood) if self.draw.chance(0.5) else self.related_object(mood)

    def related_subject(self, mood: str) -> Words:
        """The man who … laughs."""
        noun, plural = self.draw.noun(PERSON), self.draw.chance(0.25)
        who = WHO._replace(person=PLURAL) if plural else WHO
        clause = self.draw.clause(mood, False, subject=(who, PERSON))
        phrase = noun_phrase("the", noun, *self.draw.some_adjectives(noun), plural=plural)
        phrase = syntax.attach(phrase, syntax.relative(noun, clause, plural, "subject"))
        return syntax.statement(self.draw.clause(mood, False, subject=(phrase, noun.classes)))

    def related_object(self, mood: str) -> Words:
        """He reads the book that …"""
        verbs = [
            verb for verb in self.draw.verbs if "accusative" in verb.frame and "person" not in verb.frame["accusative"]
        ]
        verb, plural = self.draw.pick(verbs), self.draw.chance(0.25)
        noun = self.draw.noun(verb.frame["accusative"])
        plural = plural and noun.english_plural != "-"
        main = self.draw.clause(mood, False, verb, negatable=False)
        main = replace(main, time=None, frequency=None, manner=None, place=None, complement=None)
        other = self.draw.pick([v for v in verbs if v is not verb and v.frame["accusative"] & noun.classes])
        clause = replace(self.draw.clause(mood, False, other, negatable=False), accusative=None)
        tail = syntax.relative(noun, clause, plural, "accusative")
        return syntax.statement(replace(main, accusative=noun_phrase("the", noun, plural=plural), tail=tail))

    # Questions

    def question(self) -> Words:
        """A yes/no question, or one for the subject, an object, place, time or reason."""
        mood = self.draw.pick(("past", "present"))
        verbs = [verb for verb in self.draw.verbs if "person" in verb.subject]
        kind = self.draw.pick(("yes/no",) * 6 + ("who", "what", "what", "whom", "where", "where", "when", "why"))
        if kind == "who":
            return syntax.question(self.draw.clause(mood, False, self.draw.pick(verbs), (WHO, PERSON)))
        verb = self.draw.pick([verb for verb in verbs if can_be_asked(verb, kind)])
        clause = self.draw.clause(mood, False, verb, negatable=False)
        if kind == "what":
            return syntax.question(
                replace(clause, accusative=None), self.asked(self.draw.noun(verb.frame["accusative"]))
            )
        if kind == "whom":
            if "dative" in verb.frame:
                return syntax.question(replace(clause, dative=None), Words("who", "wem"))
            english, german, case = verb.preposition
            asked = Words("who", f"{german} {WHO.german[CASES[case]]}")
            return syntax.question(replace(clause, complement=Words(english, "")), asked)
        if kind == "where":
            if verb.place:
                return syntax.question(replace(clause, place=None), Words("where", "wo"))
            asked = Words("where", "wohin" if "to" in verb.frame else "wo")
            return syntax.question(replace(clause, complement=None), asked)
        if kind == "when":
            return syntax.question(replace(clause, time=None, frequency=None), Words("when", "wann"))
        return syntax.question(clause, Words("why", "warum") if kind == "why" else None)

    def asked(self, noun: Noun) -> Words:
        """The question for an accusative object like this noun."""
        if "person" in noun.classes:
            return Words("who", "wen")
        if noun.english_plural == "-" or ("animal" not in noun.classes and self.draw.chance(0.6)):
            return Words("what", "was")
        plural = self.draw.chance(0.5)
        phrase = noun_phrase("how many" if plural else "which", noun, plural=plural)
        return Words(phrase.object, phrase.german[ACCUSATIVE])


def can_be_asked(verb: Verb, kind: str) -> bool:
    """Whether a clause with this verb can answer a question of this kind."""
    if kind == "what":
        return "accusative" in verb.frame
    if kind == "whom":
        return ("dative" in verb.frame or verb.preposition[0] != "") and "accusative" not in verb.frame
    if kind == "where":
        return bool(verb.place) or "to" in verb.frame or "in" in verb.frame
    return kind != "when" or verb.aspect != "state"
