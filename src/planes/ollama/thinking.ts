import { chatTraits, type Thinking } from '../../chat/index.ts';
import type { Engine } from '../../engine/index.ts';
import { HttpError } from '../../http/error.ts';

/** Refuses to let a model think that does not know how. */
export function requireThinking(engine: Engine, asked: string, think: Thinking | null | undefined): void {
  if (!think || chatTraits(engine).reasoning) return;
  const message = `"${asked.slice(0, 200)}" does not support thinking; leave 'think' out`;
  throw new HttpError(400, 'unsupported_parameter', message, { param: 'think' });
}
