"""The line that says that AI made a document, in the languages of the European Union and some others."""

from __future__ import annotations

from interleave.books.languages import Language

_NOTICES = {
    "ar": "صُنع باستخدام الذكاء الاصطناعي",
    "bg": "Създадено с изкуствен интелект",
    "cs": "Vytvořeno pomocí umělé inteligence",
    "da": "Lavet med kunstig intelligens",
    "de": "Mit KI erstellt",
    "el": "Δημιουργήθηκε με τεχνητή νοημοσύνη",
    "en": "Made with AI",
    "es": "Hecho con IA",
    "et": "Loodud tehisintellektiga",
    "fi": "Tehty tekoälyllä",
    "fr": "Créé avec l’IA",
    "ga": "Déanta le hintleacht shaorga",
    "he": "נוצר באמצעות בינה מלאכותית",
    "hi": "एआई से बनाया गया",
    "hr": "Izrađeno umjetnom inteligencijom",
    "hu": "Mesterséges intelligenciával készült",
    "it": "Creato con l’IA",
    "ja": "AIで作成",
    "ko": "AI로 제작됨",
    "lt": "Sukurta naudojant dirbtinį intelektą",
    "lv": "Veidots ar mākslīgo intelektu",
    "mt": "Magħmul bl-intelliġenza artifiċjali",
    "nl": "Gemaakt met AI",
    "pl": "Stworzono z użyciem AI",
    "pt": "Feito com IA",
    "ro": "Creat cu IA",
    "ru": "Создано с помощью ИИ",
    "sk": "Vytvorené pomocou umelej inteligencie",
    "sl": "Ustvarjeno z umetno inteligenco",
    "sv": "Gjord med AI",
    "tr": "Yapay zekâ ile yapıldı",
    "uk": "Створено за допомогою ШІ",
    "zh": "由人工智能生成",
}


def ai_notice(language: Language) -> str:
    """Return the notice in a language; in English if it is not known here."""
    return _NOTICES.get(language.name, _NOTICES["en"])
