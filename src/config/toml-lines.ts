import { type AST, parseTOML } from 'toml-eslint-parser';

export type KeyPath = readonly (string | number)[];

/** The line of every key of a file that is valid TOML, which the parser of values does not tell. */
export class KeyLines {
  readonly #lines = new Map<string, number>();

  constructor(source: string) {
    let program: AST.TOMLProgram;
    try {
      program = parseTOML(source, { tomlVersion: 'latest' });
    } catch {
      // The two parsers disagree about a corner of the language; a fault is then at line 1, but it is told.
      return;
    }
    for (const node of program.body[0].body) {
      if (node.type === 'TOMLKeyValue') this.#keyValue([], node);
      else {
        this.#note(node.resolvedKey, node.loc.start.line);
        for (const entry of node.body) this.#keyValue(node.resolvedKey, entry);
      }
    }
  }

  /** Of the key, or else of what it would be in. */
  at(path: KeyPath): number {
    for (let length = path.length; length > 0; length--) {
      const line = this.#lines.get(JSON.stringify(path.slice(0, length)));
      if (line !== undefined) return line;
    }
    return 1;
  }

  #keyValue(within: KeyPath, { key, value }: AST.TOMLKeyValue): void {
    const names = key.keys.map((part) => (part.type === 'TOMLBare' ? part.name : part.value));
    const path = [...within, ...names];
    this.#note(path, key.loc.start.line);
    this.#value(path, value);
  }

  #value(path: KeyPath, node: AST.TOMLContentNode): void {
    if (node.type === 'TOMLInlineTable') {
      for (const entry of node.body) this.#keyValue(path, entry);
    } else if (node.type === 'TOMLArray') {
      for (const [index, element] of node.elements.entries()) {
        this.#note([...path, index], element.loc.start.line);
        this.#value([...path, index], element);
      }
    }
  }

  /** With all that it is in, where that is not noted yet. */
  #note(path: KeyPath, line: number): void {
    for (let length = path.length; length > 0; length--) {
      const key = JSON.stringify(path.slice(0, length));
      if (!this.#lines.has(key)) this.#lines.set(key, line);
    }
  }
}

/** `mcp.files.command[1]`; a name that is no bare key in quotes. */
export function keyText(path: KeyPath): string {
  return path
    .map((part, index) => {
      if (typeof part === 'number') return `[${part}]`;
      return `${index === 0 ? '' : '.'}${/^[\w-]+$/.test(part) ? part : JSON.stringify(part)}`;
    })
    .join('');
}
