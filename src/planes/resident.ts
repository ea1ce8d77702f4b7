import { type Engine, EngineError } from '../engine/index.ts';
import { ChatError } from '../chat/index.ts';
import { GrammarError, type Grammars } from '../grammar/types.ts';
import type { Lab } from '../lab/types.ts';
import { Problem } from './problem.ts';

/** The lab over the resident model; undefined as long as it is not ready. */
export type LabSource = () => Lab | undefined;

type State = { kind: 'none' } | { kind: 'loading' } | ({ kind: 'ready' } & ReadyModel);

/** A loaded model and what belongs to it. */
export interface ReadyModel {
  readonly engine: Engine;
  /** Undefined where the host constrains no answers. */
  readonly grammars: Grammars | undefined;
  readonly lab: LabSource | undefined;
  readonly loadedAt: Date;
}

/** The one resident model as the planes see it: absent, on its way, or there. */
export class Resident {
  #state: State;

  constructor(start: 'none' | 'loading') {
    this.#state = { kind: start };
  }

  get state(): State {
    return this.#state;
  }

  get engine(): Engine | undefined {
    return this.#state.kind === 'ready' ? this.#state.engine : undefined;
  }

  /** @param more.lab asked at every request, so that it may be made late or replaced */
  ready(engine: Engine, { lab, grammars }: { lab?: LabSource; grammars?: Grammars } = {}): void {
    this.#state = { kind: 'ready', engine, grammars, lab, loadedAt: new Date() };
  }

  /** The engine, or a 503 that says why there is none. */
  require(): ReadyModel {
    if (this.#state.kind === 'ready') return this.#state;
    if (this.#state.kind === 'loading') throw loading();
    throw new Problem(
      503,
      'no_resident_model',
      'No model is resident: the host was started without --gpu. Start it as: node dist/host.js --gpu',
      { headers: { 'x-should-retry': 'false' } },
    );
  }

  /** The lab, or a 503 that says why there is none. */
  requireLab(): Lab {
    const { lab } = this.require();
    if (lab === undefined)
      throw new Problem(503, 'lab_unavailable', 'This host serves its model without a kernel lab.');
    const ready = lab();
    if (ready !== undefined) return ready;
    throw new Problem(503, 'lab_starting', 'The kernel lab is not ready yet.', {
      headers: { 'retry-after': '1' },
    });
  }
}

export const loading = (): Problem =>
  new Problem(503, 'model_loading', 'Loading model', { headers: { 'retry-after': '1' } });

/** A refusal of the engine, of a conversation or of a grammar as an answer; anything else passes through. */
export function toProblem(error: unknown): unknown {
  if (error instanceof ChatError) return new Problem(400, error.code, error.message, { param: 'messages' });
  if (error instanceof GrammarError) return new Problem(400, error.code, error.message);
  if (!(error instanceof EngineError)) return error;
  const { code, message } = error;
  switch (code) {
    case 'queue_full':
      return new Problem(429, code, message, { headers: { 'retry-after': '1' } });
    case 'context_length_exceeded':
    case 'invalid_request':
      return new Problem(400, code, message);
    case 'device_lost':
    case 'shutting_down':
      return new Problem(503, code, message, { headers: { 'retry-after': '1' } });
    case 'broken_model':
    case 'constraint_failed':
      return new Problem(500, code, message);
    case 'reader_stalled':
      return new Problem(408, code, message);
    case 'no_adapter':
    case 'model_too_large':
    case 'unsupported_model':
      return new Problem(503, code, message);
  }
}
