/** Control characters and bidirectional formatting characters. */
const controlCharacters = /[\p{Cc}\u202a-\u202e\u2066-\u2069]/gu;

/** Replaces control characters in text from files and servers, so that it cannot add lines or control the terminal. */
export const printable = (text: string): string => text.replaceAll(controlCharacters, '\uFFFD');

/** Escapes control characters in JSON text. Line breaks between its tokens stay. */
export const escapeJsonControls = (text: string): string =>
  text.replaceAll(controlCharacters, (character) =>
    character === '\n' ? character : `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );

/** Indented JSON with control characters escaped. */
export const formatJson = (value: unknown): string => escapeJsonControls(JSON.stringify(value, undefined, 2));
