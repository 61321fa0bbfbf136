package frame

// Members calls each for every member of a JSON object, in order, with its name as
// plain bytes and its value as it stands there. The object must be valid JSON, as
// every part of a scanned message is; what is no object has no members. A name with
// escapes is passed as it stands.
func Members(object []byte, each func(name string, value []byte)) {
	if len(object) < 2 {
		return
	}
	b := skipBlanks(object)
	if b[0] != '{' {
		return
	}
	var key, value []byte
	for b = skipBlanks(b[1:]); b[0] != '}'; {
		key, value, b = nextMember(b)
		each(string(key[1:len(key)-1]), value)
	}
}
