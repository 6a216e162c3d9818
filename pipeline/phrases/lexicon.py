"""Word lists for the rules about names, in lower case unless they are patterns."""

from functools import cache

import stopwordsiso

LANGUAGES = ("en", "de", "fr", "es", "it", "pt", "nl")
ARTICLES = frozenset(("the", "a", "an"))
MONTHS = "January|February|March|April|May|June|July|August|September|October|November|December"
# Heads of names that go on behind "for" and "and": "Ministry of Fish and Tides", "Society for the
# Deaf".
INSTITUTIONS = (
    "Institute|Institution|Center|Centre|Society|Academy|Ministry|Minister|Department|Committee|Commission|"
    "Bureau|Board|Office|Museum|Association|Council|Chamber|Faculty|School|Foundation|Agency|Fund|"
    "Organi[sz]ation|Campaign|Endowment|Secretary"
)
# Lower-case words that may stand between the words of one name.
CONNECTORS = (
    "of the|of|the|de la|de las|de los|de|del|della|dei|di|da|dos|das|do|du|des|la|le|von der|von dem|von|"  # noqa: E501
    "van der|van den|van de|van|der|den|zu|zur|y|bin|ibn|al|el|ter|ten|av|af|&"
)
# Lower-case words that may stand within the title of a work in quotation marks.
SMALL_WORDS = "of|the|a|an|and|or|in|on|at|to|for|from|by|with|de|la|le|du|des|von|der|und|et|y|del|is|as|into"  # noqa: E501
# Characters with which Chinese writes foreign names.
TRANSLITERATION = (
    "阿艾爱安昂奥巴白柏拜班邦保鲍贝本比彼毕宾波伯博勃布查达大戴丹当道德邓狄迪蒂丁东杜顿多厄恩尔法范菲费芬丰冯夫弗伏福富盖甘冈高戈哥格葛古圭哈海"
    "汉豪赫黑亨洪侯胡华怀霍基吉季加佳贾简杰金京久居卡凯坎康考柯科可克肯库奎昆拉莱赖兰朗劳勒雷蕾黎李里丽利莉莲廉列林琳隆娄卢鲁露伦罗洛吕马玛迈"
    "麦曼茅梅门蒙米密明摩莫默穆拿娜纳乃奈南内妮尼涅宁纽农努诺欧帕潘庞培佩彭皮平泼普契恰奇齐前乔切钦琴丘泉让热仁荣茹儒瑞若撒萨塞赛桑瑟森沙莎山尚"
    "绍舍申圣什施史士舒朔丝斯思松苏素索塔泰坦汤唐特腾提廷图托瓦万旺威韦维魏温文翁沃乌武伍西希锡夏香肖谢欣辛兴休许雪逊雅亚延扬耶叶伊英因尤于约泽"
    "扎詹张珍治朱卓兹宗祖佐娅婭缇茜薇雯妲缪嘉歇喀"
)
SURNAMES = frozenset(
    "赵钱孙李周吴郑王冯陈褚卫蒋沈韩杨朱秦尤许何吕施张孔曹严华金魏陶姜戚谢邹喻柏窦章苏潘葛范彭郎鲁韦马苗方俞任袁柳鲍史唐费廉岑薛雷贺倪汤滕殷罗"
    "毕郝安常于傅齐康伍余顾孟黄穆萧尹姚邵汪祁毛米贝戴宋庞熊纪舒屈项祝董梁杜阮季贾路江童颜郭梅盛林钟徐邱骆高夏蔡田樊胡凌霍虞万柯管卢莫房解应宗"
    "丁邓洪包左石崔龚程邢裴陆荣翁侯温段牛樊叶白蒲赖龙谭廖曾关游欧司上诸闻辛易聂丛向习艾车佟覃蓝肖涂"
)
# Prepositions that the tagger may join to the name behind them; none is a surname.
CHINESE_PREPOSITIONS = frozenset("由从在与被把")
# Second characters that tell the result of a verb, as in 做完. Such a word of two names no place.
CHINESE_RESULTS = frozenset("大好完掉到起住成")
# Characters of time, as in 过后时, that the tagger may join to the name before them.
CHINESE_TIMES = frozenset("时后前里内")
# Last characters of nouns that name people, and words that follow a person's name.
CHINESE_PERSON_ENDS = frozenset("员师长家者手匠工士人生王帝后妃爷娘哥弟姐妹父母子女")
CHINESE_AFTER_PERSON = frozenset(
    "先生 女士 小姐 夫人 教授 博士 老师 同志 院士 将军 船长 主任 校长 大夫 医生 师傅 皇帝 "
    "说 说道 称 问 答 答道 写 写道 著 表示 认为 指出 回忆 出生 生于 出任 担任 毕业 去世 逝世 结婚 嫁给 住 住在 居住 "  # noqa: E501
    "离开 前往 加入 发明 设计 创办 创立 发表 出版 当选 参加 获得 考入 师从".split()
)
CHINESE_HEADS = {
    "organization": "大学 学院 公司 协会 学会 研究所 研究院 博物馆 图书馆 议会 公会 行会 联盟 银行 委员会 "  # noqa: E501
    "天文台 铁路 医院 学校 剧院 乐团 报社 出版社 政府 茶馆 茶社 茶楼 工厂 作坊 研究会 大学堂",
    "location": "灯塔 港 港口 渡口 岛 群岛 河 江 湖 海 湾 山 谷 桥 大桥 水坝 大坝 城 镇 村 县 省 市 街 "  # noqa: E501
    "路 码头 半岛 海岸 矿山 植物园 公园 花园",
    "event": "条约 战争 战役 之战 节 起义 革命 洪水 风暴 矿难 事故 会议 考察 远征",
}


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Words that open a sentence (and so are capitalised there) but never open a name.
STARTERS = _words(
    """
    a an the this that these those he she it its they we you i his her hers their theirs our ours your yours
    my mine me him them us who whom whose which what when where why how whether if unless because since although
    though while whilst whereas after afterwards before until till once as so thus hence therefore then
    thereafter there here now later earlier soon today tomorrow yesterday and or but nor yet for in on at by
    to from of with without within into onto upon over under above below between among amongst against about
    across along around behind beside besides beyond despite during except inside like near off out outside
    past per through throughout toward towards underneath unlike up via down also both each every either
    neither some any all many most much more few fewer several other others another such same own none no not
    only just even still again ever never always often sometimes usually however moreover furthermore
    meanwhile nevertheless nonetheless instead indeed rather finally eventually initially originally
    subsequently recently currently previously additionally similarly according due is are was were be been
    being am do does did has have had can could may might must shall should will would let perhaps maybe
    please dear yes two three four five six seven eight nine ten twelve twenty hundred thousand half one ones
    first second third next last nobody somebody everybody anybody everyone someone anyone nothing something
    everything anything apart together following given based born died see said asked
    """  # noqa: E501
)
CALENDAR = _words(
    """
    january february march april may june july august september october november december jan feb mar apr jun
    jul aug sep sept oct nov dec monday tuesday wednesday thursday friday saturday sunday januar februar märz
    mai juni juli oktober dezember montag dienstag mittwoch donnerstag freitag samstag sonntag janvier février
    mars avril juin juillet août septembre octobre novembre décembre enero febrero marzo abril mayo junio
    julio agosto septiembre octubre noviembre diciembre gennaio febbraio aprile maggio giugno luglio settembre
    ottobre dicembre bc ad bce ce
    """  # noqa: E501
)
# Labels of parts of a text, whose number makes no name: "Table 4".
LABELS = _words(
    "chapter section page part table figure fig appendix item step note no volume vol number room"
)
DEMONYMS = _words(
    """
    african american arab argentine asian australian austrian bavarian belgian brazilian british bulgarian
    canadian chilean chinese colombian croatian cuban czech danish dutch egyptian english estonian european
    filipino finnish flemish french georgian german greek hungarian icelandic indian indonesian iranian iraqi
    irish israeli italian japanese jewish korean latin lithuanian malaysian mexican nigerian norwegian
    pakistani persian peruvian polish portuguese romanian russian scottish serbian slovak soviet spanish
    swedish swiss thai turkish ukrainian vietnamese welsh christian catholic protestant muslim islamic
    buddhist hindu orthodox anglican roman norman albanian algerian armenian bengali bosnian bolivian burmese
    cambodian catalan cypriot ethiopian flemish ghanaian jamaican kenyan lebanese libyan malayalam moroccan
    victorian elizabethan edwardian florentine venetian parisian cornish silesian moravian bohemian
    nepalese palestinian prussian saxon syrian tamil telugu trinidadian tunisian uruguayan venezuelan
    """  # noqa: E501
)

# Titles of address: "Captain Mira Vale" and "Mira Vale" are one. The short ones go even before a
# lone surname.
COURTESIES = _words("mr mrs ms miss dr prof sir mister madame monsieur herr frau señor señora")
HONORIFICS = COURTESIES | _words(
    """
    professor doctor dame lord lady captain capt colonel col general gen major lieutenant lt sergeant sgt
    admiral commander commodore president king queen prince princess emperor empress pope father brother
    sister mother reverend rev bishop archbishop cardinal judge justice senator governor mayor minister
    sultan tsar emir saint chancellor inspector detective count countess duke duchess baron baroness master
    uncle aunt engineer director architect actor actress singer
    author writer poet novelist painter composer producer president
    """  # noqa: E501
)
# Titles that are left out of a ruler's name as often as not.
ROYAL = _words("king queen emperor empress prince princess pope sultan tsar emir pharaoh caliph")
# Words that may stand before a title of address: "Vice President".
RANKS = _words("prime first vice deputy chief grand crown assistant acting")
ORGANIZATION_HEADS = _words(
    """
    institute guild university company society college school academy association club council committee
    commission ministry department office agency bureau bank corporation corp inc ltd co group union league
    party church foundation trust press museum library laboratory laboratories observatory orchestra band
    records studios studio pictures productions brothers bros army navy force police court senate parliament
    congress assembly board order federation organization organisation center centre hospital team fc
    railway railways airlines diet register times gazette courier works motors electric airways
    """  # noqa: E501
)
LOCATION_HEADS = _words(
    """
    river harbour harbor island islands isle mount mountain mountains bay street road town city village lake
    sea ocean coast valley hill hills bridge port cape county province state kingdom republic duchy empire
    district park square avenue lane row quay castle palace abbey cathedral tower lighthouse dam canal desert
    forest peninsula point strait gulf beach creek falls rock rocks airport station ferry moor dale
    """  # noqa: E501
)
# Heads that stand before what they name: "Lake Annoch".
HEADS_IN_FRONT = _words("lake mount river cape port fort point isle university ss hms treaty")
# Further words whose name goes on through "of": "Hall of Fame".
OF_NOUNS = _words(
    """
    hall medal house states republic order church knight knights cross book books son sons daughter daughters
    member members secretary head chief premier archduke margrave elector landgrave viscount marquess sheriff
    survey artist novel award star song tale tales story stories history life legend return rise fall end museum gallery
    archive archives register records journal review rights voice people heart garden gardens temple tomb gate gates
    earl baron dean abbot rector curator keeper master chair act battle bill declaration day night king's queen's time
    part parts board ministry faculty friends sea coast city house isles straits bank banks
    """  # noqa: E501
)
EVENT_HEADS = _words(
    """
    treaty war wars battle battles siege festival storm flood revolution rebellion uprising olympics games
    cup championship championships tournament conference expedition earthquake fire disaster massacre
    election elections exhibition ceremony coronation congress prize award awards inquiry accord pact
    """  # noqa: E501
)
# Heads of places that are surnames as well: "Benny Hill", "Michael Bay".
SURNAME_HEADS = _words(
    "hill hills bay castle park moor dale lane rock rocks street forest lake field ford county town creek beach falls "  # noqa: E501
    "bridge cape port point mount church bank banks press booth"
)
# Nouns that tell the type of what they describe: "the film X".
_CLASSES = {
    "person": """
    actor actress director writer author novelist poet playwright dramatist screenwriter journalist editor producer
    filmmaker cinematographer animator singer songwriter musician composer conductor pianist violinist guitarist
    drummer bassist rapper vocalist soprano tenor dancer choreographer painter sculptor artist illustrator
    photographer architect engineer designer inventor scientist physicist chemist biologist mathematician astronomer
    philosopher theologian historian linguist economist psychologist sociologist anthropologist archaeologist
    geologist botanist zoologist naturalist physician surgeon doctor nurse lawyer barrister attorney judge jurist
    politician statesman diplomat ambassador senator congressman governor mayor president chancellor minister
    businessman businesswoman entrepreneur industrialist banker merchant philanthropist activist teacher professor
    academic scholar educator explorer navigator astronaut aviator pilot soldier officer general admiral colonel
    commander footballer cricketer player swimmer athlete boxer wrestler cyclist golfer jockey skier skater gymnast
    runner sprinter rower fencer coach goalkeeper midfielder defender striker bishop archbishop cardinal pope priest
    monk nun abbot abbess saint missionary rabbi king queen prince princess emperor empress duke duchess earl count
    countess baron baroness marquess viscount nobleman noblewoman aristocrat peer heiress courtier sultan caliph emir
    tsar knight comedian humorist columnist presenter broadcaster model magician keeper librarian publisher translator
    critic essayist biographer officeholder attorney spy criminal murderer outlaw pirate
    """,  # noqa: E501
    "location": """
    village town city municipality commune hamlet suburb neighbourhood neighborhood district county province
    region state country nation republic kingdom island archipelago peninsula river lake mountain volcano valley
    bay harbour harbor port capital borough parish desert settlement prefecture canton township creek stream
    """,  # noqa: E501
    "organization": """
    company band club university college school institute organization organisation corporation party newspaper
    magazine label studio orchestra choir ministry agency association society foundation charity union airline
    bank manufacturer publisher team network broadcaster hospital museum brewery guild order
    """,  # noqa: E501
    "work": """
    film movie novel album song single play opera musical book poem series sitcom documentary novella anthology
    soundtrack ballet symphony sonata sitcom episode comic manga anime videogame
    """,  # noqa: E501
    "event": "war battle tournament festival election earthquake expedition championship siege uprising rebellion",  # noqa: E501
}
# A noun of two types tells none.
CLASS_NOUNS = {
    noun: kind
    for kind, nouns in _CLASSES.items()
    for noun in nouns.split()
    if sum(noun in other.split() for other in _CLASSES.values()) == 1
}
KIN = (
    "sons?|daughters?|wife|husband|brothers?|sisters?|father|mother|nephews?|nieces?|cousins?|grandsons?|"
    "granddaughters?|grandfather|grandmother|widow|widower|uncle|aunt|stepson|stepdaughter|half-brother|half-sister|"
    "father-in-law|mother-in-law|son-in-law|daughter-in-law|brother-in-law|sister-in-law|fiancée|fiancé"
)
# Nouns for the relation of one thing to another: "capital of", "member of".
RELATION_NOUNS = _words(
    """
    capital king queen emperor ruler duke count bishop archbishop president chancellor governor mayor minister member
    founder co-founder director head chairman chairwoman leader author editor professor student pupil graduate
    alumnus subsidiary division suburb tributary sequel prequel remake adaptation version successor predecessor
    partner colleague disciple follower teacher keeper owner citizen resident native inhabitant
    """  # noqa: E501
)
# Verbs whose past does not end in -ed.
VERBS = _words(
    """
    wrote written won met built led held made sold bought founded taught fought born wed became succeeded left joined
    drew drawn gave given shot led ran beat sang sung
    """  # noqa: E501
)
# After these a lone German noun is likely a name; after an article or an adjective it is any noun.
GERMAN_PREPOSITIONS = _words("in nach von aus bei mit für gegen durch bis und oder um ab")

# Scripts without capital letters, by their Unicode names, with the languages whose stop words are
# known.
SCRIPTS = {
    "Arabic": ("ar", "fa", "ur"),
    "Hebrew": ("he",),
    "Devanagari": ("hi", "mr"),
    "Bengali": ("bn",),
    "Gujarati": ("gu",),
    "Hangul": ("ko",),
    "Thai": ("th",),
    "Hiragana": ("ja",),
    "Katakana": ("ja",),
}
# Prefixes that are written together with a word: and, with, in, for, like. The longest come first;
# the article is no prefix here.
JOINED_PREFIXES = {
    "Arabic": ("وب", "ول", "و", "ف", "ب", "ل", "ك"),
    "Hebrew": ("וב", "ול", "ומ", "וה", "ו", "ב", "ל", "מ", "כ", "ש"),
}
# Particles at the end of a Korean word, with the kind of sound that they follow. A particle comes
# behind the longer ones that end with it.
KOREAN_PARTICLES = (
    *((particle, "consonant") for particle in "으로부터 으로는 으로서 이라는 과의 으로".split()),
    *(
        (particle, "any")
        for particle in "에서는 에서도 에게서 에서 에게 에는 에도 부터 까지 보다 처럼".split()
    ),
    *((particle, "vowel") for particle in "로부터 라는 로서 로는 와의".split()),
    *((particle, "consonant") for particle in "은 이 을 과".split()),
    *((particle, "vowel") for particle in "는 가 를 와 로".split()),
    *((particle, "any") for particle in "의 에 도 만".split()),
)


@cache
def stop_words(language: str) -> frozenset[str]:
    """Return the stop words of an ISO 639-1 language in lower case."""
    return frozenset(word.lower() for word in stopwordsiso.stopwords(language))


def guess_language(words: list[str]) -> str:
    """Return the language of `LANGUAGES` with the most stop words among lower-case ``words``.

    Of languages with equally many the first is returned, which is English if there are none.
    """
    return best_language(words, LANGUAGES)


def best_language(words: list[str], languages: tuple[str, ...]) -> str:
    """Return the language with the most stop words among lower-case ``words``.

    Of languages with equally many the first is returned, and "" if there are no languages.
    """
    counts = {
        language: sum(map(stop_words(language).__contains__, words)) for language in languages
    }
    return max(languages, key=counts.__getitem__, default="")
