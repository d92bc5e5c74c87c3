package mail

import (
	"errors"
	"fmt"
	"strings"

	"github.com/emersion/go-sasl"
)

// saslClient returns the SASL client that logs in s.Username with secret.
func (s Server) saslClient(secret string) (sasl.Client, error) {
	switch s.Auth {
	case AuthPlain, "":
		if strings.Contains(secret, "\x00") {
			return nil, errors.New("the password holds a NUL byte")
		}
		return sasl.NewPlainClient("", s.Username, secret), nil
	case AuthXOAuth2:
		if err := tokenShape(secret); err != nil {
			return nil, err
		}
		return xoauth2{s.Username, secret}, nil
	case AuthOAuthBearer:
		if err := tokenShape(secret); err != nil {
			return nil, err
		}
		return oauthBearer{s.Username, secret}, nil
	default:
		return nil, fmt.Errorf("auth = %q is not %q, %q or %q", s.Auth, AuthPlain, AuthXOAuth2, AuthOAuthBearer)
	}
}

// tokenShape returns an error for a string that cannot be a bearer token (RFC 6750 section
// 2.1). Such a string could add a field to the message around it.
func tokenShape(token string) error {
	for _, r := range token {
		if r <= ' ' || r > '~' {
			return errors.New("the access token holds a character that no token can have")
		}
	}
	return nil
}

// xoauth2 is the XOAUTH2 of Google and Microsoft, which go-sasl lacks.
type xoauth2 struct{ user, token string }

func (x xoauth2) Start() (string, []byte, error) {
	return "XOAUTH2", []byte("user=" + x.user + "\x01auth=Bearer " + x.token + "\x01\x01"), nil
}

// Next answers the server's explanation of a refusal with an empty line. The
// server then sends the refusal itself as an error.
func (x xoauth2) Next([]byte) ([]byte, error) { return []byte{}, nil }

// oauthBearer is OAUTHBEARER (RFC 7628). The implementation in go-sasl stops at a refusal
// instead of reading the server's final answer.
type oauthBearer struct{ user, token string }

func (o oauthBearer) Start() (string, []byte, error) {
	// RFC 5801 section 4: "," and "=" are escaped in the name.
	user := strings.NewReplacer("=", "=3D", ",", "=2C").Replace(o.user)
	return "OAUTHBEARER", []byte("n,a=" + user + ",\x01auth=Bearer " + o.token + "\x01\x01"), nil
}

// Next answers the server's explanation of a refusal as RFC 7628 section 3.2.3
// requires.
func (o oauthBearer) Next([]byte) ([]byte, error) { return []byte{1}, nil }
