package mailtest

import "strings"

// The mails of a test need no real signature if its server only reports a verified one. These
// fields are the report and the signature. They have no line end.

// Verdict returns the field of a server that found a mail signed by domain, and DMARC passed
// for it.
func Verdict(authservID, domain string) string {
	return "Authentication-Results: " + authservID + "; dkim=pass header.d=" + domain + " header.s=s1 header.b=" + signatureValue[:8] +
		"; dmarc=pass header.from=" + domain
}

// Signature returns a signature of domain that covers fields. It cannot be verified.
func Signature(domain string, fields ...string) string {
	return "DKIM-Signature: v=1; a=rsa-sha256; c=relaxed/relaxed; d=" + domain + "; s=s1; h=" + strings.Join(fields, ":") +
		"; bh=aGFzaA==; b=" + signatureValue
}

const signatureValue = "c2lnbmVkIGJ5IHRoZW0="
