import { type AST, parseTOML } from 'toml-eslint-parser';

export type KeyPath = readonly (string | number)[];

/** Line numbers of the keys in a valid TOML file, which the TOML parser for values does not report. */
export class KeyLines {
  readonly #lines = new Map<string, number>();

  constructor(source: string) {
    let program: AST.TOMLProgram;
    try {
      program = parseTOML(source, { tomlVersion: 'latest' });
    } catch {
      // The two parsers disagree about this file. Faults are then reported at line 1.
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

  /** Line of the key, or of the nearest enclosing key that the file has. */
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

  /** Records the line of a key and of its enclosing keys, unless they have one. */
  #note(path: KeyPath, line: number): void {
    for (let length = path.length; length > 0; length--) {
      const key = JSON.stringify(path.slice(0, length));
      if (!this.#lines.has(key)) this.#lines.set(key, line);
    }
  }
}

/** `mcp.files.command[1]`; names that are not bare keys are quoted. */
export function keyText(path: KeyPath): string {
  return path
    .map((part, index) => {
      if (typeof part === 'number') return `[${part}]`;
      return `${index === 0 ? '' : '.'}${/^[\w-]+$/.test(part) ? part : JSON.stringify(part)}`;
    })
    .join('');
}
