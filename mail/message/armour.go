package message

import "strings"

// The lines of inline PGP (RFC 9580 section 6.2).
const (
	pgpEncrypted = "-----BEGIN PGP MESSAGE-----"
	pgpSigned    = "-----BEGIN PGP SIGNED MESSAGE-----"
	pgpSignature = "-----BEGIN PGP SIGNATURE-----"
	pgpEnd       = "-----END PGP SIGNATURE-----"
)

// unarmoured returns a text without the lines of its inline PGP signature. problem describes
// the signature, or is "". An encrypted text is returned unchanged, and problem describes the
// encryption.
func unarmoured(text string) (plain, problem string) {
	var out []string
	const (
		outside   = "outside"
		header    = "header"
		body      = "body"
		signature = "signature"
	)
	at := outside
	for line := range strings.SplitSeq(text, "\n") {
		bare := strings.TrimRight(line, " \t")
		switch {
		case bare == pgpEncrypted:
			return text, "the text is encrypted (PGP), and cannot be read here"
		case at == outside && bare == pgpSigned:
			at, problem = header, "the text is signed with PGP, and the signature is not checked here"
		case at == header && bare == "":
			at = body
		case at == body && bare == pgpSignature:
			at = signature
		case at == signature && bare == pgpEnd:
			at = outside
		case at == body:
			out = append(out, strings.TrimPrefix(line, "- "))
		case at == outside:
			out = append(out, line)
		}
	}
	if at != outside { // the signature is cut off
		return text, problem
	}
	return strings.Join(out, "\n"), problem
}
