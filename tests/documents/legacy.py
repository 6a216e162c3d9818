"""Text in the legacy encodings that are still met: the twenty commonest of the web's statistics
(W3Techs' ranking of character encodings, one of each pair that gives the same bytes for its
language: cp1252 for ISO-8859-1, cp1254 for ISO-8859-9, cp874 for TIS-620, gb18030 for GB 2312 and
GBK), then those of old disks and mails, which are rarer."""

import unicodedata

FRENCH = (
    "La vieille gare de Besançon fut fermée à l'été 1954, après l'inondation de la vallée. Élise"
    " Béranger, née à Orléans, y avait dirigé pendant près de trente années le dépôt des machines."
    " Les ouvriers se souvenaient d'elle comme d'une femme sévère mais généreuse, qui préférait le"
    " thé au café et ne manquait jamais la fête du village. Où sont passés les cahiers qu'elle"
    " tenait ? Personne ne l'a su ; le maire prétend qu'ils ont brûlé avec la bibliothèque. "
)
RUSSIAN = (
    "Старый маяк стоял на краю мыса, и каждую ночь смотритель поднимался по лестнице, чтобы зажечь"
    " лампу. Анна Сергеевна приехала сюда из Петербурга в 1871 году вместе с братом. Они построили"
    " дом у реки и посадили яблони. Зимой письма шли очень долго, и жители деревни собирались"
    " вечером, чтобы читать газеты вслух. Когда буря унесла лодку, никто не знал, что делать"
    " дальше. Весной лёд растаял, и первый пароход привёз врача, учителя и новые книги. "
)
JAPANESE = (
    "灯台守の娘は、夜になると静かに海を見ていた。父は毎晩、長い階段を上って明かりをともした。"
    "村の人々は冬のあ"
    "いだ手紙を待ち、春になると船が新しい本と医者を運んできた。駅の前には古い茶屋があり、"
    "旅人はそこで休んでか"
    "ら山へ向かった。兄は東京の学校で歴史を学び、大正十二年に帰ってきた。嵐で橋が流されたとき、"
    "誰もどうすれば"
    "よいのか分からなかった。"
)
KOREAN = (
    "등대지기의 딸은 밤이 되면 조용히 바다를 바라보았다. 아버지는 매일 저녁 긴 계단을 올라가 불을"
    " 밝혔다. "
    "마을 사람들은 겨울 동안 편지를 기다렸고, 봄이 오면 배가 새 책과 의사를 데려왔다. 역 앞에는"
    " 오래된 "
    "찻집이 있어서 나그네들이 그곳에서 쉬었다가 산으로 떠났다. 오빠는 서울의 학교에서 역사를"
    " 공부하고 "
    "돌아왔다. 폭풍으로 다리가 무너졌을 때 아무도 어떻게 해야 할지 몰랐다. "
)
SIMPLIFIED = (
    "磨坊主的女儿整夜没有睡，她听见水轮在转动。父亲每天晚上走上长长的楼梯，把灯点亮。"
    "村里的人在冬天等待来信，"
    "到了春天，轮船带来了新书和医生。车站前面有一家老茶馆，旅客们在那里休息以后再上山去。"
    "哥哥在北京的学校里学"
    "习历史，一九二三年才回来。暴风雨冲走了桥的时候，谁也不知道应该怎么办。后来大家一起修了新的路，"
    "生活慢慢地"
    "好起来了。"
)
TRADITIONAL = (
    "磨坊主的女兒整夜沒有睡，她聽見水輪在轉動。父親每天晚上走上長長的樓梯，把燈點亮。"
    "村裡的人在冬天等待來信，"
    "到了春天，輪船帶來了新書和醫生。車站前面有一家老茶館，旅客們在那裡休息以後再上山去。"
    "哥哥在臺北的學校裡學"
    "習歷史，一九二三年才回來。暴風雨沖走了橋的時候，誰也不知道應該怎麼辦。後來大家一起修了新的路，"
    "生活慢慢地"
    "好起來了。"
)
POLISH = (
    "Stara latarnia stała na końcu przylądka, a każdej nocy latarnik wchodził po schodach, żeby"
    " zapalić światło. Zofia Dąbrowska przyjechała tu z Łodzi w 1871 roku razem z bratem. Zbudowali"
    " dom nad rzeką i posadzili jabłonie. Zimą listy szły bardzo długo, więc mieszkańcy wsi"
    " zbierali się wieczorem, aby głośno czytać gazety. Kiedy burza zabrała łódź, nikt nie"
    " wiedział, co robić dalej. Wiosną lód stopniał i pierwszy parowiec przywiózł lekarza,"
    " nauczyciela oraz nowe książki. "
)
CZECH = (
    "Starý maják stál na konci mysu a každou noc strážce stoupal po schodech, aby rozsvítil světlo."
    " Božena Křížová sem přijela z Plzně v roce 1871 společně s bratrem. Postavili dům u řeky a"
    " zasadili jabloně. V zimě šly dopisy velmi dlouho, a tak se obyvatelé vesnice večer scházeli,"
    " aby si nahlas četli noviny. Když bouře odnesla loď, nikdo nevěděl, co má dělat dál. Na jaře"
    " led roztál a první parník přivezl lékaře, učitele a také nové knížky. Žáci se těšili na"
    " začátek školy. "
)
TURKISH = (
    "Eski deniz feneri burnun ucunda duruyordu ve bekçi her gece ışığı yakmak için merdivenleri"
    " çıkıyordu. Ayşe Yıldız, kardeşiyle birlikte 1871 yılında İstanbul'dan buraya geldi. Irmağın"
    " kıyısında bir ev yaptılar ve elma ağaçları diktiler. Kışın mektuplar çok geç geliyordu;"
    " köylüler akşamları toplanıp gazeteleri yüksek sesle okuyordu. Fırtına kayığı götürdüğünde"
    " kimse ne yapacağını bilmiyordu. İlkbaharda buzlar eridi, ilk vapur doktoru, öğretmeni ve yeni"
    " kitapları getirdi. "
)
THAI = (
    "ลูกสาวของคนเฝ้าประภาคารมองดูทะเลอย่างเงียบ ๆ ทุกคืน"
    " พ่อของเธอเดินขึ้นบันไดยาวเพื่อจุดไฟให้สว่าง ชาวบ้านรอจดหมายตลอดฤดูหนาว เมื่อถึงฤดูใบไม้ผลิ"
    " เรือก็พาหมอและครูมาพร้อมกับหนังสือใหม่"
    " หน้าสถานีมีร้านน้ำชาเก่าแก่ที่นักเดินทางมักจะแวะพักก่อนขึ้นภูเขา"
    " พี่ชายเรียนประวัติศาสตร์ที่กรุงเทพแล้วจึงกลับบ้าน เมื่อพายุพัดสะพานพัง"
    " ไม่มีใครรู้ว่าควรทำอย่างไรต่อไป "
)
ARABIC = (
    "كانت ابنة حارس المنارة تنظر إلى البحر في هدوء كل ليلة. وكان والدها يصعد السلم الطويل لكي يشعل"
    " المصباح. انتظر أهل القرية الرسائل طوال الشتاء، وعندما جاء الربيع حملت السفينة الطبيب والمعلم"
    " والكتب الجديدة. أمام المحطة مقهى قديم يستريح فيه المسافرون قبل أن يصعدوا إلى الجبل. درس أخوها"
    " التاريخ في مدرسة القاهرة ثم عاد إلى بيته. وعندما هدمت العاصفة الجسر لم يعرف أحد ماذا يجب أن"
    " يفعل بعد ذلك. "
)
GREEK = (
    "Η κόρη του φαροφύλακα κοιτούσε κάθε νύχτα τη θάλασσα. Ο πατέρας της ανέβαινε τη μεγάλη σκάλα"
    " για να ανάψει το φως. Οι κάτοικοι του χωριού περίμεναν γράμματα όλο τον χειμώνα, και την"
    " άνοιξη το πλοίο έφερνε τον γιατρό, τον δάσκαλο και καινούργια βιβλία. Άλλοτε υπήρχε μπροστά"
    " στον σταθμό ένα παλιό καφενείο, όπου οι ταξιδιώτες ξεκουράζονταν. Ο αδελφός της σπούδασε"
    " ιστορία στην Αθήνα και ύστερα γύρισε. Όταν η καταιγίδα πήρε τη γέφυρα, κανείς δεν ήξερε τι"
    " έπρεπε να κάνει. Άρχισαν όμως να χτίζουν μαζί. "
)
HEBREW = (
    "בתו של שומר המגדלור הביטה בים בשקט בכל לילה. אביה עלה במדרגות הארוכות כדי להדליק את האור. אנשי"
    " הכפר חיכו למכתבים כל החורף, ובאביב הביאה האונייה את הרופא, את המורה וספרים חדשים. מול התחנה"
    " עמד בית קפה ישן, שבו נחו הנוסעים לפני שעלו אל ההר. אחיה למד היסטוריה בבית הספר בירושלים ואחר"
    " כך חזר הביתה. כאשר הסערה הרסה את הגשר, איש לא ידע מה צריך לעשות. "
)
LITHUANIAN = (
    "Senasis švyturys stovėjo iškyšulio gale, ir kiekvieną naktį sargas lipdavo laiptais, kad"
    " uždegtų šviesą. Ona Žemaitė atvyko čia iš Kauno 1871 metais kartu su broliu. Jie pastatė namą"
    " prie upės ir pasodino obelų. Žiemą laiškai keliaudavo labai ilgai, todėl kaimo žmonės"
    " vakarais rinkdavosi garsiai skaityti laikraščių. Kai audra nunešė valtį, niekas nežinojo, ką"
    " daryti toliau. Pavasarį ledas ištirpo, ir pirmasis garlaivis atvežė gydytoją, mokytoją bei"
    " naujų knygų. Vaikai džiaugėsi ąžuolų žaluma. "
)
VIETNAMESE = (
    "Con gái người gác đèn biển lặng lẽ nhìn ra khơi mỗi đêm. Cha cô leo lên cầu thang dài để thắp"
    " sáng ngọn đèn. Dân làng chờ thư suốt mùa đông, và khi mùa xuân đến, con tàu chở bác sĩ, thầy"
    " giáo cùng những cuốn sách mới. Trước nhà ga có một quán trà cũ, nơi khách đi đường thường"
    " nghỉ lại trước khi lên núi. Anh trai cô học lịch sử ở Hà Nội rồi trở về. Khi cơn bão cuốn mất"
    " cây cầu, không ai biết phải làm gì tiếp theo. "
)
UKRAINIAN = (
    "Старий маяк стояв на краю мису, і щоночі доглядач підіймався сходами, щоб засвітити лампу."
    " Ганна Їжакевич приїхала сюди з Києва 1871 року разом із братом. Вони збудували дім біля річки"
    " й посадили яблуні. Узимку листи йшли дуже довго, і мешканці села збиралися ввечері, щоб"
    " уголос читати газети. Коли буря забрала човен, ніхто не знав, що робити далі. Ґанок їхньої"
    " хати дивився на схід, і навесні там цвіли вишні. "
)

COMMONEST = {
    "cp1252": FRENCH,
    "cp1251": RUSSIAN,
    "euc_jp": JAPANESE,
    "shift_jis": JAPANESE,
    "euc_kr": KOREAN,
    "gb18030": SIMPLIFIED,
    "cp1250": POLISH,
    "big5": TRADITIONAL,
    "cp1254": TURKISH,
    "iso8859_2": CZECH,
    "cp874": THAI,
    "cp1256": ARABIC,
    "koi8_r": RUSSIAN,
    "cp1253": GREEK,
    "iso8859_7": GREEK,
    "cp1255": HEBREW,
    "cp1257": LITHUANIAN,
    "cp1258": VIETNAMESE,
    "iso8859_5": RUSSIAN,
    "cp866": RUSSIAN,
}
RARER = [
    ("koi8_u", UKRAINIAN),
    ("mac_roman", FRENCH),
    ("cp850", FRENCH),
    ("cp437", FRENCH.replace("É", "E")),
    ("cp852", POLISH),
    ("mac_cyrillic", RUSSIAN),
    ("iso8859_15", FRENCH.replace("souvenaient", "cœur souvenait")),
    ("cp949", KOREAN),
    ("cp932", JAPANESE),
    ("big5hkscs", TRADITIONAL),
    ("iso8859_6", ARABIC),
    ("iso8859_13", LITHUANIAN),
    ("cp1251", UKRAINIAN),
]
LENGTHS = (40, 200, 2000)


def sample(encoding: str, text: str, length: int, start: int = 0) -> tuple[str, bytes]:
    """Return the text, repeated or cut to ``length`` characters, and its bytes."""
    whole = text * (1 + (start + length) // len(text))
    cut = whole[start : start + length]
    if encoding == "cp1258":
        return _vietnamese(cut)
    return cut, cut.encode(encoding)


def _vietnamese(text: str) -> tuple[str, bytes]:
    """Encode the text; cp1258 writes the tones of most letters behind them."""
    tones = "\u0300\u0301\u0303\u0309\u0323"
    parts = []
    for letter in text:
        marks = unicodedata.normalize("NFD", letter)
        tone = "".join(mark for mark in marks if mark in tones)
        parts.append(
            unicodedata.normalize("NFC", "".join(mark for mark in marks if mark not in tones))
            + tone
        )
    data = "".join(parts).encode("cp1258")
    return data.decode("cp1258"), data
