// Package message reads and writes the bytes of mails. It opens no file and no connection, and
// it does not trust the content of a mail.
//
//	Header     the header of a mail, read leniently
//	Fields     its raw fields, read leniently or strictly
//	Content    the text and the attachments of a mail, and the text without quoted
//	           history and signatures
//	Draft      a mail of ours, rendered to exact bytes
package message
