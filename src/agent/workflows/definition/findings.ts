import type { LintFinding } from '../../shapes/lint-report.ts';
import type { Path, TomlDocument } from './toml-document.ts';

/** What a finding points at: the key of a member, or a text within its value. */
export interface Pointer {
  readonly at?: 'key';
  readonly within?: string;
}

/** Maximum errors, and maximum warnings. */
const most = 200;

/** Lint findings of a source, sorted by line. */
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
