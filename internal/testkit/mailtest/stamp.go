package mailtest

import "strings"

// A server that only says what it verified lets the mails of a test do without a
// real signature. These fields stand for both. They have no line end.

// Verdict returns the field of a server that found a mail to be signed by domain,
// and DMARC to pass for it.
func Verdict(authservID, domain string) string {
	return "Authentication-Results: " + authservID + "; dkim=pass header.d=" + domain + " header.s=s1 header.b=" + signatureValue[:8] +
		"; dmarc=pass header.from=" + domain
}

// Signature returns a signature of domain that covers fields. Nothing can verify
// it.
func Signature(domain string, fields ...string) string {
	return "DKIM-Signature: v=1; a=rsa-sha256; c=relaxed/relaxed; d=" + domain + "; s=s1; h=" + strings.Join(fields, ":") +
		"; bh=aGFzaA==; b=" + signatureValue
}

const signatureValue = "c2lnbmVkIGJ5IHRoZW0="
