/** Control characters and bidirectional formatting characters. */
const commands = /[\p{Cc}\u202a-\u202e\u2066-\u2069]/gu;

/** Replaces control characters in text from files and servers, so that it cannot add lines or control the terminal. */
export const printable = (text: string): string => text.replaceAll(commands, '\uFFFD');

/** Escapes control characters in JSON text. Line breaks between its tokens stay. */
export const harmlessJson = (text: string): string =>
  text.replaceAll(commands, (mark) =>
    mark === '\n' ? mark : `\\u${mark.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );

/** Indented JSON with control characters escaped. */
export const jsonText = (value: unknown): string => harmlessJson(JSON.stringify(value, undefined, 2));
