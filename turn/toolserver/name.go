package toolserver

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// maxModelName is how long the name of a tool may be for a model's provider.
const maxModelName = 64

// modelName returns the name of a tool as the model calls it: NAME__tool. The providers
// accept letters, digits, "_" and "-". A name with anything else, or one that is too
// long, is changed, and ends in a sum of what it was. So it depends on no other tool. No
// two servers share a name, because theirs contain no "__" and do not end in "_".
func modelName(server, tool string) string {
	full := server + "__" + tool
	name := strings.Map(func(r rune) rune {
		if nameRune(r) {
			return r
		}
		return '_'
	}, full)
	if name == full && len(name) <= maxModelName {
		return name
	}
	sum := sha256.Sum256([]byte(full))
	suffix := "_" + hex.EncodeToString(sum[:4])
	return name[:min(len(name), maxModelName-len(suffix))] + suffix
}

// nameRune reports whether every provider accepts r in the name of a tool.
func nameRune(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-'
}
