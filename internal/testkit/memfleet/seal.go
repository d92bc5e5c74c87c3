package memfleet

import (
	"context"
	"encoding/base64"
)

// Seal is as fleet.Conn.Seal, without a cipher.
func (c *Client) Seal(_ context.Context, plain []byte) (string, error) {
	return base64.StdEncoding.EncodeToString(plain), nil
}

// Unseal is as fleet.Conn.Unseal.
func (c *Client) Unseal(_ context.Context, sealed string) ([]byte, error) {
	return base64.StdEncoding.DecodeString(sealed)
}
