package theme

// This file holds the themes' colours.

// A palette is what distinguishes a theme; the order is that of the roles.
type palette struct {
	background, text, dim, line, accent, good, warn, bad Colour
	cpu, memory, cache, receive, transmit                Colour
	selection, bar                                       Colour
}

func (p palette) colours() [roles]Colour {
	return [roles]Colour{
		Text: p.text, Dim: p.dim, Line: p.line, Accent: p.accent, Good: p.good, Warn: p.warn, Bad: p.bad,
		CPU: p.cpu, Memory: p.memory, Cache: p.cache, Receive: p.receive, Transmit: p.transmit,
		Read: p.receive, Write: p.transmit,
		Background: p.background, Selection: p.selection, Bar: p.bar,
	}
}

func dark(name string, accent int, p palette) Theme {
	return Theme{Name: name, Own: true, colours: p.colours(), accent: accent}
}

func light(name string, accent int, p palette) Theme {
	t := dark(name, accent, p)
	t.Light = true
	return t
}

// adaptive keeps the terminal's background; the palette's is what it is taken
// to be when contrasts are measured.
func adaptive(isLight bool, p palette) Theme {
	return Theme{Name: "x", Light: isLight, colours: p.colours(), accent: 6}
}

var onLight = adaptive(true, palette{
	background: 0xFAFAFA, text: 0x1C1C1C, dim: 0x6A6A6A, line: 0xC4C4C4, accent: 0x005F87,
	good: 0x2E7D32, warn: 0x9A6700, bad: 0xC62828, cpu: 0x2E7D32, memory: 0x1565C0, cache: 0x00838F,
	receive: 0x00838F, transmit: 0x8E24AA, selection: 0xD6E4EE, bar: 0xECECEC,
})

var all = []Theme{
	adaptive(false, palette{
		background: 0x141414, text: 0xE4E4E4, dim: 0x9A9A9A, line: 0x4E4E4E, accent: 0x87D7FF,
		good: 0x87D787, warn: 0xE6C15C, bad: 0xFF6B6B, cpu: 0x87D787, memory: 0x82AAFF, cache: 0x5FAFAF,
		receive: 0x5FD7D7, transmit: 0xD7A0FF, selection: 0x303A44, bar: 0x262626,
	}),
	dark("berlin", 3, palette{
		background: 0x17181A, text: 0xE8E6E1, dim: 0x9B9A95, line: 0x45464A, accent: 0xF5C400,
		good: 0x9CCB7A, warn: 0xF59E42, bad: 0xEF5350, cpu: 0xF5C400, memory: 0xB8B5AD, cache: 0x7F7D77,
		receive: 0x8FB8C8, transmit: 0xD9985F, selection: 0x35352B, bar: 0x232427,
	}),
	dark("bogota", 2, palette{
		background: 0x0F1A14, text: 0xE3EEE3, dim: 0x93A898, line: 0x33493B, accent: 0xF2C14E,
		good: 0x6BCB77, warn: 0xF7A440, bad: 0xEE6055, cpu: 0x6BCB77, memory: 0x60A5D8, cache: 0x4E8A7C,
		receive: 0x4FC3B0, transmit: 0xE58FB1, selection: 0x22382B, bar: 0x17261D,
	}),
	light("helsinki", 4, palette{
		background: 0xF6F9FC, text: 0x14202B, dim: 0x5C6B79, line: 0xC5D2DE, accent: 0x0B5CAD,
		good: 0x1F7A4D, warn: 0x9A5B00, bad: 0xC0273A, cpu: 0x0B74C4, memory: 0x5B5FC7, cache: 0x4C93A8,
		receive: 0x0E8A8A, transmit: 0x9A3FA5, selection: 0xD5E6F7, bar: 0xE6EEF6,
	}),
	dark("lahabana", 6, palette{
		background: 0x1B1512, text: 0xF3E9DC, dim: 0xB09E8C, line: 0x51423A, accent: 0x2EC4B6,
		good: 0x8BD17C, warn: 0xFFBF69, bad: 0xFF6F59, cpu: 0x2EC4B6, memory: 0xFF9F6B, cache: 0xB57F5F,
		receive: 0x5BC8E8, transmit: 0xF78FB3, selection: 0x3A2C25, bar: 0x2A201B,
	}),
	dark("london", 1, palette{
		background: 0x1C1F24, text: 0xDFE3E8, dim: 0x98A1AC, line: 0x464D57, accent: 0xE5616B,
		good: 0x8DBF8B, warn: 0xE0B05C, bad: 0xFF5C5C, cpu: 0x8FA9C4, memory: 0xC49BB5, cache: 0x7D8896,
		receive: 0x7FB3C8, transmit: 0xD39A7A, selection: 0x343A44, bar: 0x272B32,
	}),
	light("madrid", 1, palette{
		background: 0xFBF6EC, text: 0x2A1F16, dim: 0x74645A, line: 0xDACDB9, accent: 0xA63A1E,
		good: 0x4C7A29, warn: 0x9C5F00, bad: 0xB71C1C, cpu: 0xC0622B, memory: 0x7A5C99, cache: 0xA08A5B,
		receive: 0x2F7F79, transmit: 0xA3466B, selection: 0xF0DFC4, bar: 0xF2E9D8,
	}),
	dark("miami", 5, palette{
		background: 0x160F26, text: 0xF1E9FF, dim: 0xA596C4, line: 0x463768, accent: 0xFF6EC7,
		good: 0x5CF2B8, warn: 0xFFC857, bad: 0xFF5A79, cpu: 0x36D6E7, memory: 0xFF6EC7, cache: 0x8B6FD6,
		receive: 0x36D6E7, transmit: 0xFF9E64, selection: 0x34245A, bar: 0x221839,
	}),
	dark("oslo", 4, palette{
		background: 0x232933, text: 0xE5E9F0, dim: 0xA2ADBF, line: 0x475163, accent: 0x88C0D0,
		good: 0xA3BE8C, warn: 0xEBCB8B, bad: 0xE0747F, cpu: 0x88C0D0, memory: 0x81A1C1, cache: 0x5E81AC,
		receive: 0x8FBCBB, transmit: 0xB48EAD, selection: 0x3A4557, bar: 0x2D3541,
	}),
	light("paris", 5, palette{
		background: 0xFCFAF7, text: 0x22202A, dim: 0x6B6674, line: 0xD8D2DB, accent: 0x8A2E6B,
		good: 0x2F7D5B, warn: 0x97620A, bad: 0xC22F4B, cpu: 0x3E63B5, memory: 0xA0529A, cache: 0x8A86A8,
		receive: 0x2B8597, transmit: 0xB0567A, selection: 0xEBDFEA, bar: 0xF2EDF2,
	}),
	dark("praha", 3, palette{
		background: 0x221F1A, text: 0xEBDDB8, dim: 0xA99B7E, line: 0x51493D, accent: 0xE0B04B,
		good: 0xA9B665, warn: 0xE78A4E, bad: 0xEA6962, cpu: 0xA9B665, memory: 0x7DAEA3, cache: 0x8C7B60,
		receive: 0x89B482, transmit: 0xD3869B, selection: 0x3E372B, bar: 0x2C2822,
	}),
	dark("tokio", 4, palette{
		background: 0x16161E, text: 0xC8D0F0, dim: 0x8890B5, line: 0x3B4261, accent: 0x7AA2F7,
		good: 0x9ECE6A, warn: 0xE0AF68, bad: 0xF7768E, cpu: 0x7AA2F7, memory: 0xBB9AF7, cache: 0x5A6AA8,
		receive: 0x7DCFFF, transmit: 0xFF9E64, selection: 0x2C3350, bar: 0x1F2133,
	}),
}
