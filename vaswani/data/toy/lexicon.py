"""The words of the embedded corpus, as tables that `grammar.py` reads.

Tables are blocks of aligned columns, one block for each difficulty; a higher difficulty has all the lower ones' words.
In a column "_" stands for a space and "," separates alternatives. A word has one translation, so that English
determines German: "you" is always "du", "doctor" always "Arzt".
"""

import re
from collections.abc import Iterator
from typing import NamedTuple


class Words(NamedTuple):
    """The same phrase in both languages."""

    english: str
    german: str


class Noun(NamedTuple):
    english: str
    english_plural: str  # "-" for a mass noun, which has no plural
    german: str
    gender: str  # m, f, n; "m*" is a weak masculine, whose accusative and dative singular look like the plural
    german_plural: str
    classes: frozenset[str]
    level: int


class Adjective(NamedTuple):
    english: str
    english_comparative: str
    german: str
    stem: str  # takes the endings: teuer, but ein teur-es Buch
    comparative: str
    passing: bool  # a state that time adverbials go with: tired today, but not red today
    classes: frozenset[str]
    level: int


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


# A class named in an adjective's or a verb's column may be one of these groups.
CLASS_GROUPS = {
    "living": "person animal",
    "object": "thing clothing vehicle device reading picture opening",
    "goods": "thing clothing vehicle device reading picture food",
    "gift": "thing reading picture food",
    "owned": "animal thing pocket vehicle reading",
    "portable": "pocket clothing thing",
}

# english  plural  german  gender  plural  classes
_NOUNS = {
    1: """
    man      men       Mann     m  Männer     person,adult,stranger
    woman    women     Frau     f  Frauen     person,adult,stranger
    child    children  Kind     n  Kinder     person
    boy      boys      Junge    m* Jungen     person,stranger
    girl     girls     Mädchen  n  Mädchen    person,stranger
    teacher  teachers  Lehrer   m  Lehrer     person,adult
    doctor   doctors   Arzt     m  Ärzte      person,adult
    friend   friends   Freund   m  Freunde    person,adult
    brother  brothers  Bruder   m  Brüder     person,adult
    sister   sisters   Schwester f Schwestern person,adult
    dog      dogs      Hund     m  Hunde      animal
    cat      cats      Katze    f  Katzen     animal
    horse    horses    Pferd    n  Pferde     animal
    book     books     Buch     n  Bücher     reading,writing
    letter   letters   Brief    m  Briefe     reading,writing,document
    newspaper newspapers Zeitung f Zeitungen  reading
    apple    apples    Apfel    m  Äpfel      food,fruit
    egg      eggs      Ei       n  Eier       food
    cake     cakes     Kuchen   m  Kuchen     food,baked
    bread    -         Brot     n  -          food,baked
    cheese   -         Käse     m  -          food
    water    -         Wasser   n  -          drink
    milk     -         Milch    f  -          drink
    coffee   -         Kaffee   m  -          drink
    door     doors     Tür      f  Türen      opening,pane
    window   windows   Fenster  n  Fenster    opening,pane
    car      cars      Auto     n  Autos      vehicle
    bicycle  bicycles  Fahrrad  n  Fahrräder  vehicle
    bus      buses     Bus      m  Busse      transport
    train    trains    Zug      m  Züge       transport
    lamp     lamps     Lampe    f  Lampen     thing
    chair    chairs    Stuhl    m  Stühle     thing
    table    tables    Tisch    m  Tische     thing
    bag      bags      Tasche   f  Taschen    thing
    key      keys      Schlüssel m Schlüssel  pocket
    ball     balls     Ball     m  Bälle      thing
    picture  pictures  Bild     n  Bilder     picture
    coat     coats     Mantel   m  Mäntel     clothing
    hat      hats      Hut      m  Hüte       clothing
    shirt    shirts    Hemd     n  Hemden     clothing
    garden   gardens   Garten   m  Gärten     place,home,out
    kitchen  kitchens  Küche    f  Küchen     place,home
    house    houses    Haus     n  Häuser     place,home,dwelling
    school   schools   Schule   f  Schulen    place,work,town
    office   offices   Büro     n  Büros      place,work
    park     parks     Park     m  Parks      place,out,town
    city     cities    Stadt    f  Städte     place,shop,town,dwelling
    village  villages  Dorf     n  Dörfer     place,town,dwelling
    station  stations  Bahnhof  m  Bahnhöfe   place,town,stop
    market   markets   Markt    m  Märkte     place,shop,town
    hotel    hotels    Hotel    n  Hotels     place,dwelling,work,town
    """,
    2: """
    mother   mothers   Mutter   f  Mütter     person,adult
    father   fathers   Vater    m  Väter      person,adult
    student  students  Student  m* Studenten  person,adult
    neighbour neighbours Nachbar m* Nachbarn  person,adult
    farmer   farmers   Bauer    m* Bauern     person,adult
    aunt     aunts     Tante    f  Tanten     person,adult
    uncle    uncles    Onkel    m  Onkel      person,adult
    bird     birds     Vogel    m  Vögel      animal
    cow      cows      Kuh      f  Kühe       animal
    mouse    mice      Maus     f  Mäuse      animal
    story    stories   Geschichte f Geschichten reading,writing
    poem     poems     Gedicht  n  Gedichte   reading,writing
    pear     pears     Birne    f  Birnen     food,fruit
    soup     soups     Suppe    f  Suppen     food,dish
    meat     -         Fleisch  n  -          food,dish
    rice     -         Reis     m  -          food,dish
    tea      -         Tee      m  -          drink
    juice    -         Saft     m  -          drink
    suitcase suitcases Koffer   m  Koffer     thing,opening
    flower   flowers   Blume    f  Blumen     thing
    knife    knives    Messer   n  Messer     thing
    umbrella umbrellas Regenschirm m Regenschirme thing
    radio    radios    Radio    n  Radios     device
    computer computers Computer m  Computer   device
    shoe     shoes     Schuh    m  Schuhe     clothing
    jacket   jackets   Jacke    f  Jacken     clothing
    dress    dresses   Kleid    n  Kleider    clothing
    library  libraries Bibliothek f Bibliotheken place,work,town
    hospital hospitals Krankenhaus n Krankenhäuser place,work,town
    restaurant restaurants Restaurant n Restaurants place,work,town
    forest   forests   Wald     m  Wälder     place,out
    beach    beaches   Strand   m  Strände    place,out,town
    """,
    3: """
    baker    bakers    Bäcker   m  Bäcker     person,adult
    policeman policemen Polizist m* Polizisten person,adult,stranger
    guest    guests    Gast     m  Gäste      person,adult
    colleague colleagues Kollege m* Kollegen  person,adult
    grandmother grandmothers Großmutter f Großmütter person,adult
    daughter daughters Tochter  f  Töchter    person,adult
    son      sons      Sohn     m  Söhne      person,adult
    judge    judges    Richter  m  Richter    person,adult
    rabbit   rabbits   Kaninchen n Kaninchen  animal
    bear     bears     Bär      m* Bären      animal
    report   reports   Bericht  m  Berichte   reading,writing,document
    contract contracts Vertrag  m  Verträge   reading,writing,document
    tomato   tomatoes  Tomate   f  Tomaten    food,fruit
    potato   potatoes  Kartoffel f Kartoffeln food
    sausage  sausages  Wurst    f  Würste     food
    wine     -         Wein     m  -          drink
    bottle   bottles   Flasche  f  Flaschen   thing,opening
    mirror   mirrors   Spiegel  m  Spiegel    thing
    blanket  blankets  Decke    f  Decken     thing
    ring     rings     Ring     m  Ringe      pocket
    camera   cameras   Kamera   f  Kameras    device
    television televisions Fernseher m Fernseher device
    glove    gloves    Handschuh m Handschuhe clothing
    scarf    scarves   Schal    m  Schals     clothing
    theatre  theatres  Theater  n  Theater    place,work,town
    airport  airports  Flughafen m Flughäfen  place,work,town,stop
    lake     lakes     See      m  Seen       place,out,town
    factory  factories Fabrik   f  Fabriken   place,work,town
    castle   castles   Schloss  n  Schlösser  place,dwelling,town
    bridge   bridges   Brücke   f  Brücken    place,out
    """,
}

# english  comparative  german/stem  comparative  classes ("*": a passing state; "-": not compared)
_ADJECTIVES = {
    1: """
    old       older          alt          älter         adult,animal,object,place
    young     younger        jung         jünger        adult,animal
    small     smaller        klein        kleiner       living,object,pocket,place,fruit,transport
    big       bigger         groß         größer        animal,thing,opening,picture,place,fruit,transport
    new       newer          neu          neuer         object,place,transport
    beautiful more_beautiful schön        schöner       clothing,thing,picture,place
    friendly  friendlier     freundlich   freundlicher  person
    clever    cleverer       klug         klüger        living
    strong    stronger       stark        stärker       living
    *happy    -              glücklich    -             person
    *tired    -              müde/müd     -             living
    *sick     -              krank        -             living
    red       -              rot          -             thing,clothing,vehicle,fruit
    blue      -              blau         -             thing,clothing,vehicle
    green     -              grün         -             thing,clothing,vehicle,fruit
    black     -              schwarz      -             animal,thing,clothing,vehicle
    *cold     -              kalt         -             drink
    *warm     -              warm         -             drink,clothing
    good      better         gut          besser        food,drink,reading,picture
    fresh     fresher        frisch       frischer      food
    expensive more_expensive teuer/teur   teurer        thing,clothing,vehicle,reading,pocket,device
    heavy     heavier        schwer       schwerer      thing
    interesting more_interesting interessant interessanter reading,picture
    """,
    2: """
    rich      richer         reich        reicher       person
    lazy      lazier         faul         fauler        living
    polite    politer        höflich      höflicher     person
    *hungry   -              hungrig      -             living
    *healthy  -              gesund       -             living
    yellow    -              gelb         -             thing,clothing,vehicle,fruit
    brown     -              braun        -             animal,thing,clothing
    cheap     cheaper        billig       billiger      thing,clothing,vehicle,reading,device
    modern    more_modern    modern       moderner      vehicle,device,transport,place
    long      longer         lang         länger        reading
    boring    more_boring    langweilig   langweiliger  reading
    sweet     sweeter        süß          süßer         fruit,baked
    *hot      -              heiß         -             drink,dish
    quiet     quieter        ruhig        ruhiger       place
    """,
    3: """
    brave     braver         mutig        mutiger       person
    honest    more_honest    ehrlich      ehrlicher     person
    famous    more_famous    berühmt      berühmter     person,place
    *sad      -              traurig      -             person
    *angry    -              wütend       -             person
    *nervous  -              nervös       -             person
    grey      -              grau         -             animal,clothing,thing
    dirty     dirtier        schmutzig    schmutziger   clothing,vehicle,opening
    practical more_practical praktisch    praktischer   thing,device,clothing
    short     shorter        kurz         kürzer        reading
    important more_important wichtig      wichtiger     reading
    dangerous more_dangerous gefährlich   gefährlicher  animal
    """,
}

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

NAMES = ["Anna", "Maria", "Lena", "Peter", "Paul", "Thomas"]
CITIES = [Words("Berlin", "Berlin"), Words("Munich", "München"), Words("Vienna", "Wien"), Words("Cologne", "Köln")]

# english -> german stem, declined like "der", like "ein", or not at all (before strong adjectives)
DETERMINERS = {
    "the": ("d", "der"), "this": ("dies", "der"), "these": ("dies", "der"), "every": ("jed", "der"),
    "which": ("welch", "der"), "a": ("ein", "ein"), "not a": ("kein", "ein"), "not any": ("kein", "ein"),
    "no": ("kein", "ein"), "my": ("mein", "ein"), "your": ("dein", "ein"), "his": ("sein", "ein"),
    "her": ("ihr", "ein"), "our": ("unser", "ein"), "": ("", ""), "how many": ("wie viele", ""),
}  # fmt: skip
POSSESSIVES = ["my", "your", "his", "her", "our"]

# place -> "at" in english and german, "to" in german; zu, an (at), auf (at) and in (at) take the dative,
# an, auf and in (to) the accusative
PLACES = {
    "garden": ("in", "in", "in"), "kitchen": ("in", "in", "in"), "house": ("in", "in", "in"),
    "office": ("in", "in", "in"), "park": ("in", "in", "in"), "city": ("in", "in", "in"),
    "village": ("in", "in", "in"), "hotel": ("in", "in", "in"), "library": ("in", "in", "in"),
    "hospital": ("in", "in", "in"), "restaurant": ("in", "in", "in"), "forest": ("in", "in", "in"),
    "theatre": ("in", "in", "in"), "factory": ("in", "in", "in"), "castle": ("in", "in", "zu"),
    "school": ("at", "in", "in"), "station": ("at", "an", "zu"), "market": ("at", "auf", "auf"),
    "beach": ("on", "an", "an"), "airport": ("at", "an", "zu"), "lake": ("at", "an", "an"),
    "bridge": ("on", "auf", "zu"),
}  # fmt: skip
CONTRACTIONS = {
    "in dem": "im", "in das": "ins", "an dem": "am", "an das": "ans", "zu dem": "zum", "zu der": "zur", "von dem": "vom"
}  # fmt: skip

MANNERS = {
    "fast": [Words("quickly", "schnell"), Words("slowly", "langsam")],
    "voice": [Words("loudly", "laut"), Words("quietly", "leise")],
    "care": [Words("carefully", "vorsichtig"), Words("quickly", "schnell")],
    "hard": [Words("diligently", "fleißig"), Words("alone", "allein")],
    "early": [Words("early", "früh"), Words("late", "spät")],
    "transport": [Words("by train", "mit dem Zug"), Words("by bus", "mit dem Bus"), Words("by car", "mit dem Auto")],
}
FREQUENCIES = [
    Words("often", "oft"), Words("always", "immer"), Words("never", "nie"), Words("sometimes", "manchmal")
]  # fmt: skip
TIMES = {
    "past": [
        Words("yesterday", "gestern"), Words("last week", "letzte Woche"), Words("this morning", "heute Morgen"),
        Words("yesterday evening", "gestern Abend"),
    ],
    "habit": [
        Words("every day", "jeden Tag"), Words("in the evening", "am Abend"), Words("in summer", "im Sommer"),
        Words("every morning", "jeden Morgen"),
    ],
    "now": [Words("now", "jetzt"), Words("today", "heute")],
    "future": [
        Words("tomorrow", "morgen"), Words("next week", "nächste Woche"), Words("tomorrow evening", "morgen Abend"),
        Words("this evening", "heute Abend"),
    ],
}  # fmt: skip
PERIODS = [Words("days", "Tagen"), Words("weeks", "Wochen"), Words("years", "Jahren")]
WEEKDAYS = [
    Words("Monday", "Montag"), Words("Tuesday", "Dienstag"), Words("Wednesday", "Mittwoch"),
    Words("Thursday", "Donnerstag"), Words("Friday", "Freitag"), Words("Saturday", "Samstag"),
    Words("Sunday", "Sonntag"),
]  # fmt: skip
MONTHS = [
    (Words("January", "Januar"), 31), (Words("February", "Februar"), 28), (Words("March", "März"), 31),
    (Words("April", "April"), 30), (Words("May", "Mai"), 31), (Words("June", "Juni"), 30),
    (Words("July", "Juli"), 31), (Words("August", "August"), 31), (Words("September", "September"), 30),
    (Words("October", "Oktober"), 31), (Words("November", "November"), 30), (Words("December", "Dezember"), 31),
]  # fmt: skip

# conjunction -> its clause's mood and the main clause's ("": the same, past or present), level
CONJUNCTIONS = {
    Words("because", "weil"): ("", "", 1),
    Words("although", "obwohl"): ("", "", 1),
    Words("if", "wenn"): ("condition", "consequence", 1),
    Words("before", "bevor"): ("condition", "consequence", 2),
    Words("while", "während"): ("progressive", "progressive", 2),
    Words("as soon as", "sobald"): ("condition", "consequence", 3),
    Words("so that", "damit"): ("ability", "present", 3),
}

_ENGLISH_UNITS = "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen"
ENGLISH_UNITS = [*_ENGLISH_UNITS.split(), "seventeen", "eighteen", "nineteen"]
ENGLISH_TENS = ["", "", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
_GERMAN_UNITS = (
    "null eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn fünfzehn sechzehn"
)
GERMAN_UNITS = [*_GERMAN_UNITS.split(), "siebzehn", "achtzehn", "neunzehn"]
GERMAN_TENS = ["", "", "zwanzig", "dreißig", "vierzig", "fünfzig", "sechzig", "siebzig", "achtzig", "neunzig"]
ENGLISH_ORDINALS = {
    "one": "first", "two": "second", "three": "third", "five": "fifth", "eight": "eighth", "nine": "ninth",
    "twelve": "twelfth", "twenty": "twentieth", "thirty": "thirtieth",
}  # fmt: skip
GERMAN_ORDINALS = {1: "erst", 3: "dritt", 7: "siebt", 8: "acht"}


def _rows(blocks: dict[int, str]) -> Iterator[tuple[int, list[str]]]:
    for level, block in blocks.items():
        for line in block.strip().splitlines():
            yield level, [column.replace("_", " ") for column in line.split()]


def _classes(column: str) -> frozenset[str]:
    names = column.split(",") if column != "-" else []
    return frozenset(c for name in names for c in CLASS_GROUPS.get(name, name).split())


def _noun(level: int, columns: list[str]) -> Noun:
    english, english_plural, german, gender, german_plural, classes = columns
    return Noun(english, english_plural, german, gender, german_plural, _classes(classes), level)


def _adjective(level: int, columns: list[str]) -> Adjective:
    english, english_comparative, german, comparative, classes = columns
    german, _, stem = german.partition("/")
    passing, english = english.startswith("*"), english.removeprefix("*")
    return Adjective(
        english, english_comparative, german, stem or german, comparative, passing, _classes(classes), level
    )


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
        frame[name] = _classes(classes)
    manners = tuple(manner.split(",")) if manner != "-" else ()
    return Verb(
        english, past, prefix, infinitive, third, participle, auxiliary, _classes(subject), frame, preposition,
        manners, _classes(place), aspect, level,
    )  # fmt: skip


def _modal(level: int, columns: list[str]) -> Modal:
    english, past, kind, *forms = ("" if column == "-" else column for column in columns)
    return Modal(english, past, kind, tuple(forms[:4]), tuple(forms[4:]), level)


NOUNS = {noun.english: noun for noun in (_noun(*row) for row in _rows(_NOUNS))}
ADJECTIVES = {adjective.english: adjective for adjective in (_adjective(*row) for row in _rows(_ADJECTIVES))}
VERBS = {columns[0].replace("|", " "): _verb(level, columns) for level, columns in _rows(_VERBS)}
MODALS = {modal.english: modal for modal in (_modal(*row) for row in _rows(_MODALS))}
