package setup

import (
	"agentstateloop/mail/trust"
)

// trustPart is [trust]; "" is the default.
type trustPart struct {
	require, fallback string
	authservID        string // "": verify = "dkim"
}

func (t trustPart) write(d *document) {
	d.section("trust")
	switch {
	case t.require == trust.RequireChallenge:
		d.line("require", t.require, "you are asked by mail about each mail of yours")
	case t.authservID != "":
		d.line("authserv_id", t.authservID, "the mail server whose check of a sender counts")
	default:
		d.line("verify", trust.VerifyDKIM, "your mail is recognised by its signature")
	}
	if t.fallback != "" {
		d.line("fallback", t.fallback, "you are asked about mail that is not proved")
	}
}

// trust sets how mail is authenticated, from the flags and the preset.
func (in *interview) trust(known preset) (trustPart, error) {
	t := trustPart{require: in.Require, fallback: in.Fallback, authservID: in.AuthservID}
	if t.authservID == "" {
		t.authservID = known.authservID
	}
	if t.require != "" {
		if err := isOneOf(trust.RequireDMARC, trust.RequireChallenge)(t.require); err != nil {
			if err := in.Asker.Wrong("", "--require %s: %v", t.require, err); err != nil {
				return t, err
			}
			t.require = ""
		}
	}
	if in.AuthservID != "" && t.require == trust.RequireChallenge {
		return t, in.Asker.Wrong("leave one of them out", "--authserv-id is for --require dmarc: with challenge the mail server's check does not count")
	}
	return t, nil
}
