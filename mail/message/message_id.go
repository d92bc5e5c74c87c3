package message

import "strings"

// MessageID returns the Message-ID of the mail with effect id, sent by handle
// from address: <ID.HANDLE@domain>. A handle holds no dot, so OwnMessageID can
// tell it from any other.
func MessageID(id, handle, address string) string {
	return "<" + id + "." + handle + "@" + Domain(address) + ">"
}

// OwnMessageID reports whether msgid is one that handle gives its mail from
// address. It proves nothing: anybody can write it.
func OwnMessageID(msgid, handle, address string) bool {
	if handle == "" || address == "" {
		return false
	}
	inner, ok := strings.CutPrefix(strings.ToLower(strings.TrimSpace(msgid)), "<")
	if !ok {
		return false
	}
	id, ok := strings.CutSuffix(inner, "."+strings.ToLower(handle)+"@"+Domain(address)+">")
	return ok && id != ""
}

// Domain returns the domain of an address, normalised.
func Domain(address string) string {
	address = NormalAddress(address)
	return address[strings.LastIndexByte(address, '@')+1:]
}
