package message

import (
	"strings"

	"agentstateloop/internal/lazy"
)

// maxSignature is the maximum number of lines of a signature below a "--" without its blank.
// More lines are text.
const maxSignature = 8

// The limits of the line that a device adds.
const (
	maxDeviceLine  = 100 // bytes
	maxDeviceWords = 8
)

// deviceLine matches the lines of the most common programs. deviceName matches the product
// names that the line of a device has in any language.
var (
	deviceLine = lazy.NewRegexp(`(?i)^(sent from (my|mail for|outlook|yahoo|proton)\b.*|get outlook for .*|von meinem .{1,40} gesendet|gesendet (von|mit) .*|outlook für .* beziehen|envoyé de(puis)? mon .*|télécharger outlook pour .*)$`)
	deviceName = lazy.NewRegexp(`(?i)\b(iphone|ipad|ipod|android|samsung|galaxy|huawei|xiaomi|redmi|oppo|vivo|pixel|outlook|yahoo|gmail|proton ?mail|blackberry|nokia|lumia|windows phone|k-9|fairemail|qq|163)\b`)
)

// ownText returns the text that the sender of a mail wrote. It leaves out repeated text of
// ours, the lines that introduce it, and signatures. Only an answer repeats our text, and a
// forwarded mail stays whole. ownText drops lines but does not change them, except for ">From",
// by which mailboxes protect a line that begins with "From".
func ownText(full string, kind mailKind, sent Sent) (text string, left LeftOut) {
	lines := strings.Split(full, "\n")
	for i, l := range lines {
		if strings.HasPrefix(l, ">From ") {
			lines[i] = l[1:]
		}
	}
	if kind.forwards {
		return strings.TrimSpace(strings.Join(lines, "\n")), left
	}
	if kind.answers {
		lines, left.History = trimHistory(lines, sent)
	}
	lines, left.Signature = trimSignature(lines, kind.mobile)
	return strings.TrimSpace(strings.Join(lines, "\n")), left
}

// mailKind is the kind of a mail by its header.
type mailKind struct {
	answers  bool // the mail has In-Reply-To or References
	forwards bool
	mobile   bool // a program on a phone wrote it
}

// mobilePrograms are parts of X-Mailer, User-Agent and Message-ID of programs on phones.
var mobilePrograms = []string{
	"iphone mail", "ipad mail", "email.android.com", "k-9 mail", "k-9", "fairemail", "outlook for ios", "outlook-ios", "outlook for android", "outlook-android",
	"ymobile", "yahoomailandroid", "samsung", "bluemail", "mail for windows phone", "blackberry", "gmx mobile", "web.de mobile", "spark", "protonmail/android", "protonmail/ios", "aquamail",
}

// kindOf returns the kind of a raw mail.
func kindOf(raw []byte) mailKind {
	var k mailKind
	for _, f := range Fields(raw) {
		switch f.Name {
		case "in-reply-to", "references":
			k.answers = k.answers || strings.TrimSpace(f.Value) != ""
		case "subject":
			k.forwards = Forwarded(decodeWords(f.Value))
		case "x-mailer", "user-agent", "message-id":
			value := Lower(f.Value)
			for _, program := range mobilePrograms {
				k.mobile = k.mobile || strings.Contains(value, program)
			}
		}
	}
	return k
}

// trimSignature removes the lines below "-- " (RFC 3676 section 4.3), and a last line that a
// device has added. It returns the number of lines with text that it removed.
func trimSignature(lines []string, mobile bool) (kept []string, removed int) {
	kept = lines
	for i, l := range lines {
		if l == "-- " || l == "--" && len(lines)-i-1 <= maxSignature {
			kept = lines[:i]
			break
		}
	}
	for len(kept) > 0 {
		n := len(kept) - 1
		last := strings.TrimSpace(kept[n])
		if last != "" && !fromDevice(kept, mobile) {
			break
		}
		kept = kept[:n]
	}
	for _, l := range lines[len(kept):] {
		if strings.TrimSpace(l) != "" {
			removed++
		}
	}
	return kept, removed
}

// fromDevice reports whether a device added the last line. The line must be a short paragraph
// of its own. It has the words of a known program or, in a mail from a phone, the name of a
// product in any language.
func fromDevice(lines []string, mobile bool) bool {
	n := len(lines) - 1
	last := strings.TrimSpace(lines[n])
	if len(last) > maxDeviceLine || n > 0 && strings.TrimSpace(lines[n-1]) != "" {
		return false
	}
	short := len(words(last, maxDeviceWords+1)) <= maxDeviceWords && !strings.HasSuffix(last, "?")
	return deviceLine.Get().MatchString(last) || mobile && short && deviceName.Get().MatchString(last)
}
