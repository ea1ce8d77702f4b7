import type { LintFinding } from '../../shapes/lint-report.ts';
import type { Path, TomlDocument } from './toml-document.ts';

/** Where in a value a finding points: at its name, or at a text inside of it. */
export interface Pointer {
  readonly at?: 'key';
  readonly within?: string;
}

/** No more of a kind are kept: nobody reads a thousand. */
const most = 200;

/** What is wrong with a source, in the order of its lines. */
export class Findings {
  readonly #document: TomlDocument;
  readonly #found = { errors: [] as LintFinding[], warnings: [] as LintFinding[] };

  constructor(document: TomlDocument) {
    this.#document = document;
    for (const { code, message, place } of document.faults.slice(0, most))
      this.#found.errors.push({ code, path: '', message, ...place });
  }

  get isClean(): boolean {
    return this.#found.errors.length === 0;
  }
  get errors(): LintFinding[] {
    return inOrder(this.#found.errors);
  }
  get warnings(): LintFinding[] {
    return inOrder(this.#found.warnings);
  }

  error(code: string, path: Path, message: string, pointer?: Pointer): void {
    this.#add('errors', code, path, message, pointer);
  }
  warn(code: string, path: Path, message: string, pointer?: Pointer): void {
    this.#add('warnings', code, path, message, pointer);
  }

  #add(kind: 'errors' | 'warnings', code: string, path: Path, message: string, pointer: Pointer = {}): void {
    const list = this.#found[kind];
    if (list.length >= most) return;
    const place = this.#document.place(path, pointer.at, pointer.within);
    list.push({ code, path: path.join('.'), message, ...place });
  }
}

const inOrder = (findings: readonly LintFinding[]) =>
  findings.toSorted((a, b) => a.line - b.line || a.column - b.column);
