import { type AST, parseTOML } from 'toml-eslint-parser';

export type KeyPath = readonly (string | number)[];

/** The line numbers of all keys of a valid TOML file; the TOML parser does not report them. */
export class KeyLines {
  readonly #lines = new Map<string, number>();

  constructor(source: string) {
    let program: AST.TOMLProgram;
    try {
      program = parseTOML(source, { tomlVersion: 'latest' });
    } catch {
      // The two parsers disagree about this file: faults are then reported at line 1.
      return;
    }
    for (const node of program.body[0].body) {
      if (node.type === 'TOMLKeyValue') this.#visitKeyValue([], node);
      else {
        this.#record(node.resolvedKey, node.loc.start.line);
        for (const entry of node.body) this.#visitKeyValue(node.resolvedKey, entry);
      }
    }
  }

  /** The line of a key, or of the nearest table that would contain it. */
  lineOf(path: KeyPath): number {
    for (let length = path.length; length > 0; length--) {
      const line = this.#lines.get(JSON.stringify(path.slice(0, length)));
      if (line !== undefined) return line;
    }
    return 1;
  }

  #visitKeyValue(parentPath: KeyPath, { key, value }: AST.TOMLKeyValue): void {
    const names = key.keys.map((part) => (part.type === 'TOMLBare' ? part.name : part.value));
    const path = [...parentPath, ...names];
    this.#record(path, key.loc.start.line);
    this.#visitValue(path, value);
  }

  #visitValue(path: KeyPath, node: AST.TOMLContentNode): void {
    if (node.type === 'TOMLInlineTable') {
      for (const entry of node.body) this.#visitKeyValue(path, entry);
    } else if (node.type === 'TOMLArray') {
      for (const [index, element] of node.elements.entries()) {
        this.#record([...path, index], element.loc.start.line);
        this.#visitValue([...path, index], element);
      }
    }
  }

  /** Records the line of a path, and of its parents if they have none yet. */
  #record(path: KeyPath, line: number): void {
    for (let length = path.length; length > 0; length--) {
      const key = JSON.stringify(path.slice(0, length));
      if (!this.#lines.has(key)) this.#lines.set(key, line);
    }
  }
}

/** Formats a path as `mcp.files.command[1]`; names that are not bare keys are quoted. */
export function formatKeyPath(path: KeyPath): string {
  return path
    .map((part, index) => {
      if (typeof part === 'number') return `[${part}]`;
      return `${index === 0 ? '' : '.'}${/^[\w-]+$/.test(part) ? part : JSON.stringify(part)}`;
    })
    .join('');
}
