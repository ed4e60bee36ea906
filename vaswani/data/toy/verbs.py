"""The verbs and modal verbs of the embedded corpus."""

import re
from typing import NamedTuple

from vaswani.data.toy.words import noun_classes, rows


class Verb(NamedTuple):
    english: str  # "pick|up": the particle follows a pronoun; "look for": the preposition never does
    english_past: str
    prefix: str  # separable; "" if none
    infinitive: str  # without the prefix
    third_person: str
    participle: str
    auxiliary: str  # haben or sein
    subject: frozenset[str]
    frame: dict[str, frozenset[str]]  # what it governs -> classes of nouns, e.g. {"accusative": {"food"}}
    preposition: tuple[str, str, str]  # of a prepositional object: for, auf, accusative
    manner: tuple[str, ...]
    place: frozenset[str]
    aspect: str  # "action"; "moment": no progressive; "state": nor times or modals
    level: int

    @property
    def past_looks_present(self) -> bool:
        """Whether the English past is like the infinitive, as that of "read" or "put on"."""
        return re.split("[ |]", self.english)[0] == self.english_past


class Modal(NamedTuple):
    english: str
    english_past: str
    kind: str  # aux: can open; do: has to open, does not have to; be: is allowed to open
    present: tuple[str, ...]  # ich, du, er, wir; "" where German has the adverb "gern" and no modal
    past: tuple[str, ...]  # "" where there is none
    level: int


# english  past  german (prefix_infinitive)  er-form  participle  auxiliary  subject  frame  manner  place  aspect
# A frame is role=classes; a preposition is written english.german.case=classes. "-": nothing.
_VERBS = {
    1: """
    work     worked  arbeiten  arbeitet gearbeitet  haben person - hard,with,for home,work action
    sleep    slept   schlafen  schläft  geschlafen  haben living - - home action
    laugh    laughed lachen    lacht    gelacht     haben person - voice - action
    sing     sang    singen    singt    gesungen    haben person - voice,with,for home,out action
    dance    danced  tanzen    tanzt    getanzt     haben person - with home,out action
    play     played  spielen   spielt   gespielt    haben person - with home,out action
    get|up   got     auf_stehen steht   aufgestanden sein person - early - moment
    come|back came   zurück_kommen kommt zurückgekommen sein living - early - moment
    arrive   arrived an_kommen kommt    angekommen  sein  person,transport - early stop,city moment
    go       went    gehen     geht     gegangen    sein  person to=town,home with - action
    drive    drove   fahren    fährt    gefahren    sein  person to=town,city fast,with - action
    travel   travelled reisen  reist    gereist     sein  person to=city transport,with - action
    run      ran     laufen    läuft    gelaufen    sein  living to=town,out fast - action
    read     read    lesen     liest    gelesen     haben person accusative=reading fast home,work action
    write    wrote   schreiben schreibt geschrieben haben person accusative=writing fast home,work action
    buy      bought  kaufen    kauft    gekauft     haben person accusative=goods for shop action
    sell     sold    verkaufen verkauft verkauft    haben person accusative=goods - shop action
    eat      ate     essen     isst     gegessen    haben person accusative=food fast,with home,work action
    drink    drank   trinken   trinkt   getrunken   haben person accusative=drink fast,with home,work action
    open     opened  auf_machen macht   aufgemacht  haben person accusative=opening care - action
    close    closed  zu_machen macht    zugemacht   haben person accusative=opening care - action
    clean    cleaned putzen    putzt    geputzt     haben person accusative=pane,vehicle care - action
    look_for looked  suchen    sucht    gesucht     haben person accusative=living,portable - home,town action
    see      saw     sehen     sieht    gesehen     haben living accusative=living,vehicle,transport - town,out moment
    find     found   finden    findet   gefunden    haben person accusative=animal,portable - home,out moment
    visit    visited besuchen  besucht  besucht     haben person accusative=person with - action
    call     called  an_rufen  ruft     angerufen   haben person accusative=person - - action
    invite   invited ein_laden lädt     eingeladen  haben person accusative=person - - action
    pick|up  picked  ab_holen  holt     abgeholt    haben person accusative=person - stop action
    love     loved   lieben    liebt    geliebt     haben person accusative=living - - state
    need     needed  brauchen  braucht  gebraucht   haben person accusative=object,pocket - - state
    have     had     haben     hat      gehabt      haben person accusative=owned - - state
    help     helped  helfen    hilft    geholfen    haben person dative=person - home,work action
    give     gave    geben     gibt     gegeben     haben person dative=person;accusative=gift,pocket - - action
    show     showed  zeigen    zeigt    gezeigt     haben person dative=person;accusative=gift,animal - - action
    wait_for waited  warten    wartet   gewartet    haben living for.auf.accusative=person,transport - stop action
    talk_to  talked  sprechen  spricht  gesprochen  haben person to.mit.dative=person voice home,town action
    live     lived   wohnen    wohnt    gewohnt     haben person in=dwelling,city,number - - state
    cost     cost    kosten    kostet   gekostet    haben object euros=number - - state
    be       was     sein      ist      gewesen     sein  living,object,pocket,drink,food,place adjective=any - - state
    say      said    sagen     sagt     gesagt      haben person that=that - - moment
    believe  believed glauben  glaubt   geglaubt    haben person that=that - - state
    know     knew    wissen    weiß     gewusst     haben person that=that,whether - - state
    ask      asked   fragen    fragt    gefragt     haben person that=whether - - moment
    """,
    2: """
    swim     swam    schwimmen schwimmt geschwommen sein  living - fast,with - action
    wake|up  woke    auf_wachen wacht   aufgewacht  sein  living - early - moment
    fall|asleep fell ein_schlafen schläft eingeschlafen sein living - early home moment
    fly      flew    fliegen   fliegt   geflogen    sein  person to=city with - action
    thank    thanked danken    dankt    gedankt     haben person dative=person - - action
    answer   answered antworten antwortet geantwortet haben person dative=person fast - action
    listen_to listened zu_hören hört    zugehört    haben person dative=person - home,work action
    bring    brought bringen   bringt   gebracht    haben person dative=person;accusative=gift,drink - - action
    send     sent    schicken  schickt  geschickt   haben person dative=person;accusative=reading,picture - - action
    look_at  looked  an_sehen  sieht    angesehen   haben person accusative=picture,animal care home,work action
    turn|on  turned  ein_schalten schaltet eingeschaltet haben person accusative=device - home,work action
    turn|off turned  aus_schalten schaltet ausgeschaltet haben person accusative=device - home,work action
    put|on   put     an_ziehen zieht    angezogen   haben person accusative=clothing fast - action
    wear     wore    tragen    trägt    getragen    haben person accusative=clothing - home,work action
    wash     washed  waschen   wäscht   gewaschen   haben person accusative=clothing,vehicle care,for - action
    repair   repaired reparieren repariert repariert haben person accusative=vehicle,device care,for - action
    paint    painted malen     malt     gemalt      haben person accusative=picture care,for home,out action
    cook     cooked  kochen    kocht    gekocht     haben person accusative=dish for,with home action
    bake     baked   backen    backt    gebacken    haben person accusative=baked for,with home action
    lose     lost    verlieren verliert verloren    haben person accusative=portable - town,out moment
    forget   forgot  vergessen vergisst vergessen   haben person accusative=portable - - moment
    meet     met     treffen   trifft   getroffen   haben person accusative=person - town,out moment
    think_of thought denken    denkt    gedacht     haben person of.an.accusative=living - - action
    hope     hoped   hoffen    hofft    gehofft     haben person that=that - - state
    tell     told    erzählen  erzählt  erzählt     haben person dative=person;that=that - - moment
    """,
    3: """
    lock     locked  ab_schließen schließt abgeschlossen haben person accusative=pane,vehicle care - action
    take|off took    aus_ziehen zieht   ausgezogen  haben person accusative=clothing fast - action
    throw|away threw weg_werfen wirft   weggeworfen haben person accusative=thing,reading,clothing - - action
    give|back gave   zurück_geben gibt  zurückgegeben haben person accusative=pocket,thing,reading - - action
    sign     signed  unterschreiben unterschreibt unterschrieben haben person accusative=document care work action
    translate translated übersetzen übersetzt übersetzt haben person accusative=reading care,for work action
    offer    offered an_bieten bietet   angeboten   haben person dative=person;accusative=gift,drink - - action
    lend     lent    leihen    leiht    geliehen    haben person dative=person;accusative=owned - - action
    promise  promised versprechen verspricht versprochen haben person dative=person;accusative=gift,animal - - action
    congratulate congratulated gratulieren gratuliert gratuliert haben person dative=person - - action
    follow   followed folgen   folgt    gefolgt     sein  living dative=living - - action
    admire   admired bewundern bewundert bewundert  haben person accusative=living,picture - - state
    hide     hid     verstecken versteckt versteckt haben person accusative=pocket,thing care home,out action
    hug      hugged  umarmen   umarmt   umarmt      haben person accusative=person - - moment
    dream_of dreamt  träumen   träumt   geträumt    haben person of.von.dative=living,vehicle - - action
    laugh_about laughed lachen lacht    gelacht     haben person about.über.accusative=person,picture voice - action
    """,
}

# english  past  kind  present: ich du er wir  past: the same
_MODALS = {
    1: """
    can        -         aux kann kannst kann können        - - - -
    have_to    had_to    do  muss musst muss müssen         musste musstest musste mussten
    want_to    wanted_to do  will willst will wollen        wollte wolltest wollte wollten
    will       -         aux werde wirst wird werden        - - - -
    """,
    2: """
    should     -         aux sollte solltest sollte sollten - - - -
    able_to    -         be  kann kannst kann können        konnte konntest konnte konnten
    allowed_to -         be  darf darfst darf dürfen        durfte durftest durfte durften
    like_to    -         do  - - - -                        - - - -
    """,
}

# Finite forms that are irregular, or a preterite used where other verbs take the perfect: ich, du, er, wir.
PRESENT = {
    "haben": ("habe", "hast", "hat", "haben"),
    "sein": ("bin", "bist", "ist", "sind"),
    "wissen": ("weiß", "weißt", "weiß", "wissen"),
}
PRETERITE = {
    "haben": ("hatte", "hattest", "hatte", "hatten"),
    "sein": ("war", "warst", "war", "waren"),
    "wissen": ("wusste", "wusstest", "wusste", "wussten"),
}
DOUBLED_CONSONANT = {"get", "put", "run", "swim", "travel", "hug"}  # getting


def _verb(level: int, columns: list[str]) -> Verb:
    english, past, german, third, participle, auxiliary, subject, roles, manner, place, aspect = columns
    prefix, _, infinitive = german.rpartition(" ")
    frame, preposition = {}, ("", "", "")
    for role in roles.split(";") if roles != "-" else []:
        name, classes = role.split("=")
        if "." in name:
            english_preposition, german_preposition, case = name.split(".")
            preposition, name = (english_preposition, german_preposition, case), "prepositional"
            english = english.removesuffix(" " + english_preposition)
        frame[name] = noun_classes(classes)
    manners = tuple(manner.split(",")) if manner != "-" else ()
    return Verb(
        english, past, prefix, infinitive, third, participle, auxiliary, noun_classes(subject), frame, preposition,
        manners, noun_classes(place), aspect, level,
    )  # fmt: skip


def _modal(level: int, columns: list[str]) -> Modal:
    english, past, kind, *forms = ("" if column == "-" else column for column in columns)
    return Modal(english, past, kind, tuple(forms[:4]), tuple(forms[4:]), level)


VERBS = {columns[0].replace("|", " "): _verb(level, columns) for level, columns in rows(_VERBS)}
MODALS = {modal.english: modal for modal in (_modal(*row) for row in rows(_MODALS))}
