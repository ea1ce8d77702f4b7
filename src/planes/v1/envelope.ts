import type { Envelope } from '../../http/error.ts';
import { errorObject } from '../../wires/core/error.ts';

/** OpenAI's envelope: all four members always there. */
export const openaiEnvelope: Envelope = (error) => ({ error: errorObject(error) });
