import type { Constraint } from '../../src/engine/types.ts';
import type { Grammar, GrammarError, GrammarService, GrammarSource } from '../../src/grammar/types.ts';

/** Grammars that allow everything, and a record of what was compiled, begun and closed. */
export class ScriptedGrammars implements GrammarService {
  readonly compiled: GrammarSource[] = [];
  /** Thrown by the next `compile`. */
  refuse: GrammarError | undefined;
  started = 0;
  closed = 0;

  async compile(source: GrammarSource): Promise<Grammar> {
    if (this.refuse) throw this.refuse;
    this.compiled.push(source);
    return {
      start: (): Constraint => {
        this.started++;
        return {
          next: () => Promise.resolve(undefined),
          close: () => {
            this.closed++;
          },
        };
      },
    };
  }

  close(): Promise<void> {
    return Promise.resolve();
  }
}
