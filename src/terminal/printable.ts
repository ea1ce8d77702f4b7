/** Controls of a terminal, and marks that turn the direction of what follows. */
const commands = /[\p{Cc}\u202a-\u202e\u2066-\u2069]/gu;

/** Names from files and servers may hold anything: neither a line of their own nor a command to the terminal. */
export const printable = (text: string): string => text.replaceAll(commands, '\uFFFD');

/** JSON in which what a terminal obeys is escaped, too; line breaks between its parts stay. */
export const harmlessJson = (text: string): string =>
  text.replaceAll(commands, (mark) =>
    mark === '\n' ? mark : `\\u${mark.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );

/** A value as JSON for people and programs. */
export const jsonText = (value: unknown): string => harmlessJson(JSON.stringify(value, undefined, 2));
