package toolserver

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// maxModelName is the longest tool name that the providers accept.
const maxModelName = 64

// modelName returns the name by which the model calls a tool: NAME__tool. The providers accept
// letters, digits, "_" and "-". A name that is too long or has other characters is changed, and
// ends in a checksum of the original. The result thus does not depend on other tools. No two
// servers share a name, because server names contain no "__" and do not end in "_".
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

// nameRune reports whether every provider accepts r in a tool name.
func nameRune(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-'
}
