package theme

// This file measures contrast as WCAG 2 does.

import "math"

// Contrast is the contrast ratio of two colours, from 1 to 21
// (https://www.w3.org/TR/WCAG22/#dfn-contrast-ratio).
func Contrast(a, b Colour) float64 {
	la, lb := luminance(a), luminance(b)
	if la < lb {
		la, lb = lb, la
	}
	return (la + 0.05) / (lb + 0.05)
}

func luminance(c Colour) float64 {
	linear := func(v Colour) float64 {
		s := float64(v&0xFF) / 255
		if s <= 0.04045 {
			return s / 12.92
		}
		return math.Pow((s+0.055)/1.055, 2.4)
	}
	return 0.2126*linear(c>>16) + 0.7152*linear(c>>8) + 0.0722*linear(c)
}
