package message

import (
	"slices"
	"strings"
	"unicode"

	"agentstateloop/internal/plain"

	"golang.org/x/text/unicode/norm"
)

// ReplySubject returns the subject of an answer to a mail with subject s.
func ReplySubject(s string) string {
	s = oneLine(s, maxSubject)
	return replyPrefix(s) + s
}

// replyPrefix returns the prefix that the subject of an answer needs, or "" if
// s already has one.
func replyPrefix(s string) string {
	if mark, _ := cutMark(comparableSubject(s)); mark == replyMark {
		return ""
	}
	return "Re: "
}

// Forwarded reports whether a subject marks the mail as a forward of another one, as "Fwd: x",
// "[Fwd: x]" and "x (fwd)" do.
func Forwarded(subject string) bool {
	mark, rest := cutMark(comparableSubject(subject))
	for mark == serverMark {
		mark, rest = cutMark(rest)
	}
	return mark == forwardMark
}

// absences are the beginnings of the subjects of absence notes from Exchange and Outlook, in
// lower case. Some of these notes have no other sign.
var absences = []string{
	"automatic reply:", "out of office", "automatische antwort:", "abwesenheitsnotiz", "réponse automatique", "absence du bureau", "respuesta automática:",
	"fuera de oficina", "risposta automatica:", "fuori sede", "resposta automática:", "automatisch antwoord:", "automatiskt svar:", "automatisk svar:",
	"automaattinen vastaus:", "odpowiedź automatyczna:", "automatyczna odpowiedź:", "automatická odpověď:", "automatická odpoveď:", "automatikus válasz:",
	"răspuns automat:", "автоматический ответ:", "автоматична відповідь:", "автоматичен отговор:", "otomatik yanıt:", "αυτόματη απάντηση:", "תשובה אוטומטית:",
	"رد تلقائي:", "自動応答:", "自動返信:", "自动答复:", "自动回复:", "自動回覆:", "자동 회신:", "automatski odgovor:", "samodejni odgovor:", "ตอบกลับอัตโนมัติ:", "trả lời tự động:",
	"balasan otomatis:", "automātiskā atbilde:", "automatinis atsakymas:", "automaatvastus:",
}

// IsAbsence reports whether a mail with this subject is an absence note, provided that it
// answers a mail.
func IsAbsence(subject string) bool {
	subject = strings.ReplaceAll(Lower(strings.TrimSpace(subject)), "\uff1a", ":")
	return slices.ContainsFunc(absences, func(a string) bool { return strings.HasPrefix(subject, a) })
}

// maxBase is the number of characters of a subject that distinguish threads. Some servers keep
// only 255 of a subject.
const maxBase = 200

// baseSubject returns the part of a subject that all mails of a thread share, in a form for
// comparison: without the marks of answers and forwards (RFC 5256 section 2.1), without blanks,
// which programs add and drop where they fold a line, and without regard to case.
func baseSubject(subject string) string {
	s := comparableSubject(subject)
	for mark := replyMark; mark != noMark; {
		mark, s = cutMark(s)
	}
	s = strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) || unicode.Is(unicode.Cf, r) {
			return -1
		}
		return r
	}, s)
	if runes := []rune(s); len(runes) > maxBase {
		s = string(runes[:maxBase])
	}
	return s
}

// comparableSubject returns a subject as one line, in lower case, and in normal form (NFKC).
func comparableSubject(subject string) string {
	return strings.TrimSpace(strings.ToLower(norm.NFKC.String(oneLine(subject, maxSubject))))
}

// mark is the kind of a mark that a program wrote around a subject.
type mark int

const (
	noMark mark = iota
	replyMark
	forwardMark
	serverMark // added in transit
)

// cutMark cuts the outermost mark off a subject in the form of comparableSubject.
func cutMark(s string) (mark, string) {
	if rest, ok := strings.CutSuffix(s, "(fwd)"); ok {
		return forwardMark, strings.TrimSpace(rest)
	}
	for _, tag := range []string{"[external]", "[ext]", "[extern]", "[external email]", "[extern email]"} {
		if rest, ok := strings.CutPrefix(s, tag); ok {
			return serverMark, strings.TrimSpace(rest)
		}
	}
	word, rest, ok := strings.Cut(s, ":")
	if !ok {
		return noMark, s
	}
	if bare, ok := strings.CutPrefix(word, "["); ok && markOf(bare) == forwardMark {
		return forwardMark, strings.TrimSpace(strings.TrimSuffix(rest, "]"))
	}
	m := markOf(word)
	if m == noMark {
		return noMark, s
	}
	return m, strings.TrimSpace(rest)
}

// maxMark is the maximum length of a mark, in bytes.
const maxMark = 40

// markOf returns the meaning of the word before a colon. The word may have a count, as in
// "Re[2]".
func markOf(word string) mark {
	word = plain.Cut(word, maxMark)
	if i := strings.IndexAny(word, "[(^*"); i > 0 && strings.Trim(word[i:], "[](^)*0123456789 ") == "" {
		word = word[:i]
	}
	switch strings.TrimSpace(word) {
	case "re", "aw", "antw", "antwort", "sv", "svar", "vs", "ref", "rép", "rep", "réf", "res", "resp", "r", "rif", "odp", "ynt", "yan",
		"vá", "atb", "bls", "tl", "απ", "σχετ", "на", "отв", "ответ", "השב", "תגובה", "رد",
		"回复", "回覆", "答复", "答覆", "返信", "회신", "답장":
		return replyMark
	case "fw", "fwd", "wg", "tr", "rv", "enc", "i", "vb", "vl", "pd", "ilt", "i̇lt", "doorst", "tov", "továbbítás", "fs", "trs", "ct", "πρθ",
		"пер", "пересл", "הועבר", "إعادة توجيه",
		"转发", "轉寄", "轉發", "転送", "전달":
		return forwardMark
	}
	return noMark
}
