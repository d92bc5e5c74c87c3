package message

import (
	"strings"
	"unicode"

	"agentstateloop/internal/lazy"
	"agentstateloop/internal/plain"
)

// ControlYes is the control word of a YES to a challenge that is not open. Control never
// returns it.
const ControlYes = "YES"

// Control returns the control word that a mail consists of: "STOP", "HALT", "GO" or "STATUS"
// (docs/design.md, "Stop and controls"). The reply text must be only this word, in any case,
// apart from the banners of providers; a full stop or an exclamation mark may follow it.
// Control returns "" for any other text.
func Control(replyText string) string {
	word := strings.ToUpper(strings.TrimRight(WithoutBanners(replyText), ".!"))
	switch word {
	case "STOP", "HALT", "GO", "STATUS":
		return word
	}
	return ""
}

// The limits of a banner.
const (
	maxTag          = 100 // bytes of a line in brackets
	maxBannerLabel  = 30  // bytes of the words before its colon
	minBannerWords  = 5   // of a paragraph with a label
	minFooterWords  = 12  // of a paragraph about who may read the mail
	minFooterRule   = 10  // characters of a line that is drawn above a footer
	maxBannerRounds = 20  // banners of one mail
)

var (
	// bannerLabel matches the beginnings of the common labels. A label in another language must
	// be in capitals.
	bannerLabel = lazy.NewRegexp(`(?i)^(caution|warning|external|notice|disclaimer|achtung|vorsicht|warnung|hinweis|attention|avertissement|atención|advertencia|precaución|aviso|atenção|attenzione|avviso|let op|waarschuwing|uwaga|pozor|upozornění|figyelem|varning|advarsel|huomio|внимание|увага|dikkat|uyarı|注意|警告|주의|경고)`)
	// bannerWords matches the wording of common banners without a label.
	bannerWords = lazy.NewRegexp(`(?i)(outside( of)?|external to) (the|your|our|this) (organi[sz]ation|company)|external (sender|e-?mail|source)|don['’]t often get e-?mail from|außerhalb (der|ihrer|unserer|dieser) (organisation|firma)|externe[rn]? (absender|e-?mail)|ext[ée]rieur de (l['’]|votre |notre )(organisation|entreprise)|fuera de (la|su|nuestra) organizaci|de fora da (sua |nossa )?organiza|estern[oa] (all['’]organizzazione|alla)|buiten (de|uw|onze) organisatie|spoza (twojej |naszej )?(organizacj|firmy)|внешн\S* (отправител|источник|почт)|извне|组织外部|外部邮件|社外から|外部からの`)
	// footerWords matches notices about who may read a mail, and about virus scans.
	footerWords = lazy.NewRegexp(`(?i)confidential|confidentiel|confidencial|vertraulich|vertrouwelijk|riservat|poufn|důvěrn|bizalmas|konfidentiel|конфиденц|конфіденц|gizli|機密|机密|保密|기밀|intended recipient|virus`)
)

// WithoutBanners returns a reply text without the banners that a provider has put above and
// below it: "[EXTERNAL]", "CAUTION: This mail came from outside.", a notice about who may read
// it. A text that consists only of banners is returned unchanged. Only a short answer is read
// this way (a control, an option, a YES): in an order, these may be the sender's own words.
func WithoutBanners(replyText string) string {
	whole := strings.TrimSpace(replyText)
	text := whole
	for range maxBannerRounds {
		rest, found := withoutTop(text)
		if !found {
			break
		}
		text = rest
	}
	for range maxBannerRounds {
		rest, found := withoutBottom(text)
		if !found {
			break
		}
		text = rest
	}
	if text == "" {
		return whole
	}
	return text
}

// withoutTop removes a banner at the beginning: a line in brackets, or a paragraph.
func withoutTop(text string) (rest string, found bool) {
	line, below, _ := strings.Cut(text, "\n")
	if isTag(line) {
		return strings.TrimSpace(below), true
	}
	first, below := cutParagraph(text)
	if isBanner(first) {
		return below, true
	}
	return text, false
}

// withoutBottom removes a banner at the end, and everything below a drawn line.
func withoutBottom(text string) (rest string, found bool) {
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		if l = strings.TrimSpace(l); i > 0 && isRule(l) && len(words(l, 1)) == 0 && len([]rune(l)) >= minFooterRule {
			return strings.TrimSpace(strings.Join(lines[:i], "\n")), true
		}
	}
	if last := lines[len(lines)-1]; len(lines) > 1 && isTag(last) {
		return strings.TrimSpace(strings.Join(lines[:len(lines)-1], "\n")), true
	}
	for i := len(lines) - 1; i > 0; i-- {
		if strings.TrimSpace(lines[i]) != "" {
			continue
		}
		last := strings.Join(lines[i+1:], "\n")
		if isBanner(last) || footerWords.Get().MatchString(last) && len(words(last, minFooterWords)) == minFooterWords {
			return strings.TrimSpace(strings.Join(lines[:i], "\n")), true
		}
		return text, false
	}
	return text, false
}

// cutParagraph cuts a text at its first blank line.
func cutParagraph(text string) (first, rest string) {
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		if strings.TrimSpace(l) == "" {
			return strings.Join(lines[:i], "\n"), strings.TrimSpace(strings.Join(lines[i:], "\n"))
		}
	}
	return text, ""
}

// isTag reports whether a line is one tag in brackets or between marks: "[EXTERNAL]",
// "*** External mail ***".
func isTag(line string) bool {
	line = strings.TrimSpace(line)
	if len(line) > maxTag || len(words(line, 1)) == 0 {
		return false
	}
	for _, brackets := range [][2]string{{"[", "]"}, {"\u3010", "\u3011"}, {"(", ")"}} {
		inner, opened := strings.CutPrefix(line, brackets[0])
		inner, closed := strings.CutSuffix(inner, brackets[1])
		if opened && closed && !strings.ContainsAny(inner, brackets[0]+brackets[1]) {
			return true
		}
	}
	return isRule(line)
}

// isBanner reports whether a paragraph has more than a few words, and begins with a label or
// has the wording of a common banner.
func isBanner(paragraph string) bool {
	paragraph = strings.TrimLeftFunc(paragraph, func(r rune) bool { return !unicode.IsLetter(r) })
	if len(words(paragraph, minBannerWords)) < minBannerWords {
		return false
	}
	if bannerWords.Get().MatchString(strings.Join(strings.Fields(paragraph), " ")) {
		return true
	}
	label := labelOf(paragraph)
	return label != "" && (isCapitals(label) || bannerLabel.Get().MatchString(label))
}

// labelOf returns the words before the mark that ends the label of a text, or "".
func labelOf(text string) string {
	beginning := plain.Cut(text, maxBannerLabel)
	i := strings.IndexAny(beginning, ":\uff1a!\uff01\u2013\u2014\n")
	if j := strings.Index(beginning, " - "); j >= 0 && (i < 0 || j < i) {
		i = j
	}
	if i <= 0 {
		return ""
	}
	return strings.TrimSpace(text[:i])
}

// isCapitals reports whether s has letters and all of them are capitals.
func isCapitals(s string) bool {
	return strings.ContainsFunc(s, unicode.IsUpper) && strings.ToUpper(s) == s
}
