import { z } from 'zod';
import type { Envelope } from '../../http/error.ts';

/** Ollama's error body. */
export const ollamaError = z.object({ error: z.string() }).meta({ id: 'OllamaError' });

export const ollamaEnvelope: Envelope = ({ message }) => ({ error: message });
