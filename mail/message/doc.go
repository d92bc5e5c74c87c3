// Package message reads and writes the bytes of mails. It opens no file and no
// connection, and it trusts nothing that a mail says.
//
//	Header     what a mail says about itself, read leniently
//	Fields     its header fields as they stand, leniently or strictly
//	Content    the text and the attachments of a mail
//	ReplyText  the text without quoted history and signatures
//	Draft      a mail of ours, rendered to exact bytes
package message
