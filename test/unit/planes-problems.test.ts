import { describe, expect, it } from 'vitest';
import { EngineError } from '../../src/engine/index.ts';
import { GrammarError } from '../../src/grammar/types.ts';
import { HttpError } from '../../src/http/error.ts';
import { toHttpError } from '../../src/planes/resident.ts';

describe('a failure as an answer', () => {
  it('is a client error where a grammar exceeds its limits during an answer, else a host error', () => {
    const cause = new GrammarError('grammar_too_complex', 'the grammar took more than 10 s');
    const tooMuch = toHttpError(
      new EngineError('constraint_failed', `the constraint of the answer failed: ${cause.message}`, {
        cause,
      }),
    );
    expect(tooMuch).toBeInstanceOf(HttpError);
    expect(tooMuch).toMatchObject({ status: 400, code: 'grammar_too_complex', message: cause.message });
    const nothing = toHttpError(new EngineError('constraint_failed', 'the grammar allows nothing'));
    expect(nothing).toMatchObject({ status: 400, code: 'constraint_failed' });
    const broken = toHttpError(new EngineError('constraint_failed', 'lost', { cause: new Error('gone') }));
    expect(broken).toMatchObject({ status: 500, code: 'constraint_failed' });
  });
});
