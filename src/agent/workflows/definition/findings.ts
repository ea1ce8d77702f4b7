import type { LintFinding } from '../../shapes/lint-report.ts';
import type { Path, TomlDocument } from './toml-document.ts';

/** What a finding points at: the key of a member, or a text within its value. */
export interface Pointer {
  readonly at?: 'key';
  readonly within?: string;
}

/** Maximum errors, and maximum warnings. */
const maxFindings = 200;

/** Lint findings of a source, sorted by line. */
export class Findings {
  readonly #document: TomlDocument;
  readonly #findings = { errors: [] as LintFinding[], warnings: [] as LintFinding[] };

  constructor(document: TomlDocument) {
    this.#document = document;
    for (const { code, message, position: place } of document.faults.slice(0, maxFindings))
      this.#findings.errors.push({ code, path: '', message, ...place });
  }

  get isClean(): boolean {
    return this.#findings.errors.length === 0;
  }
  get errors(): LintFinding[] {
    return sortByPosition(this.#findings.errors);
  }
  get warnings(): LintFinding[] {
    return sortByPosition(this.#findings.warnings);
  }

  error(code: string, path: Path, message: string, pointer?: Pointer): void {
    this.#add('errors', code, path, message, pointer);
  }
  warn(code: string, path: Path, message: string, pointer?: Pointer): void {
    this.#add('warnings', code, path, message, pointer);
  }

  #add(kind: 'errors' | 'warnings', code: string, path: Path, message: string, pointer: Pointer = {}): void {
    const list = this.#findings[kind];
    if (list.length >= maxFindings) return;
    const place = this.#document.positionOf(path, pointer.at, pointer.within);
    list.push({ code, path: path.join('.'), message, ...place });
  }
}

const sortByPosition = (findings: readonly LintFinding[]) =>
  findings.toSorted((a, b) => a.line - b.line || a.column - b.column);
