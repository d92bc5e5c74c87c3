package trust

import (
	"strings"

	"agentstateloop/internal/plain"
	"agentstateloop/mail/message"
)

// Evidence is the evidence of a mail about its sender, for people.
type Evidence struct {
	// Results is the text of the Authentication-Results fields that are believed, or "". It is
	// always "" if signatures are verified here.
	Results string `json:"results"`

	// Signatures describes the DKIM signatures of the mail, from the top, at most
	// maxSignatures.
	Signatures []SignatureEvidence `json:"signatures"`

	// Proved reports whether the sender is proved. Whole reports whether the server vouches for the
	// whole mail. Otherwise Covered are the fields that matter and are covered by the proof, and
	// Uncovered those in the mail that are not.
	Proved    bool     `json:"proved"`
	Whole     bool     `json:"whole"`
	Covered   []string `json:"covered"`
	Uncovered []string `json:"uncovered"`
}

// NoEvidence returns the evidence of a mail whose sender was not looked at.
func NoEvidence() Evidence {
	return Evidence{Signatures: []SignatureEvidence{}, Covered: []string{}, Uncovered: []string{}}
}

// SignatureEvidence describes one DKIM signature.
type SignatureEvidence struct {
	Domain   string   `json:"domain"`   // d=
	Selector string   `json:"selector"` // s=
	Fields   []string `json:"fields"`   // h=, in lower case
	Length   string   `json:"length"`   // l=; "": the whole body is signed

	// Counts reports whether the signature may prove the sender. Result is the reason why not,
	// or the finding of the server or of our own verification.
	Counts bool   `json:"counts"`
	Result string `json:"result"`
}

// Evidence returns the evidence of a mail with this header, whose only sender is from. body is
// the verdict on the whole mail, or its zero value if the body was not judged.
func (f *Filter) Evidence(header []byte, from string, body BodyVerdict) Evidence {
	e := NoEvidence()
	if s := body.Signing; s != nil {
		e.Proved, e.Whole = true, s.Whole
		e.Covered, e.Uncovered = append(e.Covered, s.Signed...), append(e.Uncovered, s.Unsigned...)
	}
	fields, err := message.StrictFields(header)
	if err != nil || f.Require != RequireDMARC {
		return e
	}
	var results []authResult
	if f.Verify != VerifyDKIM {
		if block, reason := authBlock(fields, f.AuthservID); reason == "" {
			e.Results = plain.OneLine(strings.Join(block, " | "), 1000)
			for _, value := range block {
				read, _ := authResults(value) // a malformed field proves nothing
				results = append(results, read...)
			}
		}
	}
	for i, s := range signatureFields(fields) {
		if i == maxSignatures {
			break
		}
		d := SignatureEvidence{Domain: s.domain, Selector: s.selector, Fields: append([]string{}, s.fields...), Length: s.length}
		switch {
		case s.err != nil:
			d.Result = s.err.Error()
		default:
			d.Result = f.weakness(s.signature, fields, from)
		}
		if d.Result == "" {
			d.Counts, d.Result = f.finding(i, s.signature, results, body)
		}
		e.Signatures = append(e.Signatures, d)
	}
	return e
}

// finding returns what the server or our own verification found about signature i, which is
// strong enough.
func (f *Filter) finding(i int, s signature, results []authResult, body BodyVerdict) (counts bool, result string) {
	if f.Verify == VerifyDKIM {
		switch {
		case i >= len(body.checked):
			return false, NotVerified
		case body.checked[i] != nil:
			return false, "not valid: " + plain.OneLine(body.checked[i].Error(), 200)
		}
		return true, "valid"
	}
	for _, r := range ofMethod(results, "dkim") {
		if name, ok := nameIn(r); ok && name.mayMean(s) {
			return r.value == "pass", "dkim=" + r.value + " by the server"
		}
	}
	return false, "the server does not report on it"
}

// NotVerified is the result of a signature that was not verified.
const NotVerified = "not verified"
