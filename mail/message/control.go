package message

import "strings"

// ControlYes is a YES to a challenge that is not open. Control never
// returns it.
const ControlYes = "YES"

// Control returns the control word that a mail consists of: "STOP", "HALT",
// "GO" or "STATUS" (docs/design.md, "Stop and controls"). The word must be
// alone in the reply text, in any case; a full stop or an exclamation mark may
// follow it. Control returns "" for any other text.
func Control(replyText string) string {
	word := strings.ToUpper(strings.TrimRight(strings.TrimSpace(replyText), ".!"))
	switch word {
	case "STOP", "HALT", "GO", "STATUS":
		return word
	}
	return ""
}
