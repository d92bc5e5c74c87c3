package message

import (
	"strings"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/japanese"
	"golang.org/x/text/encoding/korean"
	"golang.org/x/text/encoding/simplifiedchinese"
	"golang.org/x/text/encoding/traditionalchinese"
	"golang.org/x/text/encoding/unicode"
)

// encodingOf returns the encoding of the charset named label, or nil if it is unknown. It knows
// the IANA and WHATWG names of every encoding of x/text. US-ASCII is read as UTF-8, which
// contains it. ISO-8859-1 and ISO-8859-9 are read as the Windows charsets that extend them, as
// browsers do: programs use these names for the Windows charsets.
//
// The indexes of x/text know the same names, but they build maps of 1,200 names at each start
// of the program. The test compares them with this function.
func encodingOf(label string) encoding.Encoding {
	switch strings.ToLower(strings.TrimSpace(label)) {
	case "ansi_x3.4-1968", "ansi_x3.4-1986", "ascii", "cp367", "csascii", "ibm367", "iso-ir-6", "iso646-us", "iso_646.irv:1991", "us",
		"us-ascii":
		return unicode.UTF8
	case "csutf8", "unicode-1-1-utf-8", "unicode11utf8", "unicode20utf8", "utf-8", "utf8", "x-unicode20utf8", "x-utf_8j":
		return unicode.UTF8
	case "csutf16", "utf-16", "utf16":
		return unicode.UTF16(unicode.BigEndian, unicode.UseBOM)
	case "csutf16be", "unicodefffe", "utf-16be", "utf16be":
		return unicode.UTF16(unicode.BigEndian, unicode.IgnoreBOM)
	case "csunicode", "csutf16le", "iso-10646-ucs-2", "ucs-2", "unicode", "unicodefeff", "utf-16le", "utf16le":
		return unicode.UTF16(unicode.LittleEndian, unicode.IgnoreBOM)
	case "csisolatin2", "iso-8859-2", "iso-ir-101", "iso8859-2", "iso88592", "iso_8859-2", "iso_8859-2:1987", "isolatin2", "l2", "latin2":
		return charmap.ISO8859_2
	case "csisolatin3", "iso-8859-3", "iso-ir-109", "iso8859-3", "iso88593", "iso_8859-3", "iso_8859-3:1988", "isolatin3", "l3", "latin3":
		return charmap.ISO8859_3
	case "csisolatin4", "iso-8859-4", "iso-ir-110", "iso8859-4", "iso88594", "iso_8859-4", "iso_8859-4:1988", "isolatin4", "l4", "latin4":
		return charmap.ISO8859_4
	case "csisolatincyrillic", "cyrillic", "iso-8859-5", "iso-ir-144", "iso8859-5", "iso88595", "iso_8859-5", "iso_8859-5:1988", "isolatincyrillic":
		return charmap.ISO8859_5
	case "arabic", "asmo-708", "csisolatinarabic", "ecma-114", "iso-8859-6", "iso-ir-127", "iso8859-6", "iso88596", "iso_8859-6", "iso_8859-6:1987",
		"isolatinarabic":
		return charmap.ISO8859_6
	case "csiso88596e", "iso-8859-6-e", "iso88596e", "iso_8859-6-e":
		return charmap.ISO8859_6E
	case "csiso88596i", "iso-8859-6-i", "iso88596i", "iso_8859-6-i":
		return charmap.ISO8859_6I
	case "csisolatingreek", "ecma-118", "elot_928", "greek", "greek8", "iso-8859-7", "iso-ir-126", "iso8859-7", "iso88597", "iso_8859-7",
		"iso_8859-7:1987", "isolatingreek", "sun_eu_greek":
		return charmap.ISO8859_7
	case "csisolatinhebrew", "hebrew", "iso-8859-8", "iso-ir-138", "iso8859-8", "iso88598", "iso_8859-8", "iso_8859-8:1988", "isolatinhebrew",
		"visual":
		return charmap.ISO8859_8
	case "csiso88598e", "iso-8859-8-e", "iso88598e", "iso_8859-8-e":
		return charmap.ISO8859_8E
	case "csiso88598i", "iso-8859-8-i", "iso88598i", "iso_8859-8-i", "logical":
		return charmap.ISO8859_8I
	case "csisolatin6", "iso-8859-10", "iso-ir-157", "iso8859-10", "iso885910", "iso_8859-10:1992", "isolatin6", "l6", "latin6":
		return charmap.ISO8859_10
	case "csiso885913", "iso-8859-13", "iso8859-13", "iso885913":
		return charmap.ISO8859_13
	case "csiso885914", "iso-8859-14", "iso-celtic", "iso-ir-199", "iso8859-14", "iso885914", "iso_8859-14", "iso_8859-14:1998", "l8",
		"latin8":
		return charmap.ISO8859_14
	case "csiso885915", "csisolatin9", "iso-8859-15", "iso8859-15", "iso885915", "iso_8859-15", "l9", "latin-9":
		return charmap.ISO8859_15
	case "csiso885916", "iso-8859-16", "iso-ir-226", "iso885916", "iso_8859-16", "iso_8859-16:2001", "l10", "latin10":
		return charmap.ISO8859_16
	case "cswindows874", "dos-874", "iso-8859-11", "iso8859-11", "iso885911", "tis-620", "windows-874", "windows874":
		return charmap.Windows874
	case "cp1250", "cswindows1250", "windows-1250", "windows1250", "x-cp1250":
		return charmap.Windows1250
	case "cp1251", "cswindows1251", "windows-1251", "windows1251", "x-cp1251":
		return charmap.Windows1251
	case "ansi_x3.110-1983", "cp1252", "cp819", "csisolatin1", "cswindows1252", "ibm819", "iso-8859-1", "iso-ir-100", "iso8859-1", "iso88591",
		"iso_8859-1", "iso_8859-1:1987", "isolatin1", "l1", "latin1", "windows-1252", "windows1252", "x-cp1252":
		return charmap.Windows1252
	case "cp1253", "cswindows1253", "windows-1253", "windows1253", "x-cp1253":
		return charmap.Windows1253
	case "cp1254", "csisolatin5", "cswindows1254", "iso-8859-9", "iso-ir-148", "iso8859-9", "iso88599", "iso_8859-9", "iso_8859-9:1989",
		"isolatin5", "l5", "latin5", "windows-1254", "windows1254", "x-cp1254":
		return charmap.Windows1254
	case "cp1255", "cswindows1255", "windows-1255", "windows1255", "x-cp1255":
		return charmap.Windows1255
	case "cp1256", "cswindows1256", "windows-1256", "windows1256", "x-cp1256":
		return charmap.Windows1256
	case "cp1257", "cswindows1257", "windows-1257", "windows1257", "x-cp1257":
		return charmap.Windows1257
	case "cp1258", "cswindows1258", "windows-1258", "windows1258", "x-cp1258":
		return charmap.Windows1258
	case "cskoi8r", "koi", "koi8", "koi8-r", "koi8_r", "koi8r":
		return charmap.KOI8R
	case "cskoi8u", "koi8-ru", "koi8-u", "koi8u":
		return charmap.KOI8U
	case "csmacintosh", "mac", "macintosh", "x-mac-roman":
		return charmap.Macintosh
	case "x-mac-cyrillic", "x-mac-ukrainian":
		return charmap.MacintoshCyrillic
	case "cp037", "csibm037", "ebcdic-cp-ca", "ebcdic-cp-nl", "ebcdic-cp-us", "ebcdic-cp-wt", "ibm037":
		return charmap.CodePage037
	case "437", "cp437", "cspc8codepage437", "ibm437", "pc8codepage437":
		return charmap.CodePage437
	case "850", "cp850", "cspc850multilingual", "ibm850", "pc850multilingual":
		return charmap.CodePage850
	case "852", "cp852", "cspcp852", "ibm852", "pcp852":
		return charmap.CodePage852
	case "855", "cp855", "csibm855", "ibm855":
		return charmap.CodePage855
	case "ccsid00858", "cp00858", "csibm00858", "ibm00858", "pc-multilingual-850+euro":
		return charmap.CodePage858
	case "860", "cp860", "csibm860", "ibm860":
		return charmap.CodePage860
	case "862", "cp862", "cspc862latinhebrew", "ibm862", "pc862latinhebrew":
		return charmap.CodePage862
	case "863", "cp863", "csibm863", "ibm863":
		return charmap.CodePage863
	case "865", "cp865", "csibm865", "ibm865":
		return charmap.CodePage865
	case "866", "cp866", "csibm866", "ibm866":
		return charmap.CodePage866
	case "csibm1047", "ibm-1047", "ibm1047":
		return charmap.CodePage1047
	case "ccsid01140", "cp01140", "csibm01140", "ebcdic-us-37+euro", "ibm01140":
		return charmap.CodePage1140
	case "x-user-defined":
		return charmap.XUserDefined
	case "cseucpkdfmtjapanese", "euc-jp", "eucpkdfmtjapanese", "extended_unix_code_packed_format_for_japanese", "x-euc-jp":
		return japanese.EUCJP
	case "csiso2022jp", "iso-2022-jp", "iso2022jp":
		return japanese.ISO2022JP
	case "csshiftjis", "ms932", "ms_kanji", "shift-jis", "shift_jis", "shiftjis", "sjis", "windows-31j", "x-sjis":
		return japanese.ShiftJIS
	case "cseuckr", "csksc56011987", "euc-kr", "euckr", "iso-ir-149", "korean", "ks_c_5601-1987", "ks_c_5601-1989", "ksc5601", "ksc_5601",
		"windows-949":
		return korean.EUCKR
	case "csgb18030", "gb18030":
		return simplifiedchinese.GB18030
	case "chinese", "cp936", "csgb2312", "csgbk", "csiso58gb231280", "gb2312", "gb_2312", "gb_2312-80", "gbk", "iso-ir-58", "ms936", "windows-936",
		"x-gbk":
		return simplifiedchinese.GBK
	case "hz-gb-2312":
		return simplifiedchinese.HZGB2312
	case "big5", "big5-hkscs", "cn-big5", "csbig5", "x-x-big5":
		return traditionalchinese.Big5
	case "csiso2022kr", "iso-2022-cn", "iso-2022-cn-ext", "iso-2022-kr", "replacement":
		return encoding.Replacement
	}
	return nil
}
