import { z } from 'zod';
import { strictObject } from '../../http/schema/strict.ts';
import { jsonObject } from '../../http/schema/json-object.ts';

import { nonEmptyText } from '../../agent/shapes/common.ts';

const text = z.string({ error: 'expected a text' });
const maxInputChars = 1_000_000;

/** Unknown members are ignored. */
export const runRequest = z
  .object(
    {
      input: text
        .max(maxInputChars, `at most ${maxInputChars} characters`)
        .optional()
        .describe('Value of `{{input}}`.'),
      inputs: jsonObject('expected an object of inputs')
        .optional()
        .describe('Values of the inputs that the workflow declares, by name.'),
      model: nonEmptyText
        .max(200, 'at most 200 characters')
        .optional()
        .describe('Model in place of `resident` in all steps of the run: the id of a model of the gateway.'),
      retried_from: text.optional().describe('The failed run to retry: `r<n>`.'),
    },
    { error: 'expected an object' },
  )
  .meta({ id: 'RunRequest' });

/** Strict: inputs under a misspelt name would be left out. */
export const resumeRequest = strictObject({
  inputs: jsonObject('expected an object of inputs')
    .optional()
    .describe('Inputs for the input gate. Leave out for a paused run.'),
}).meta({ id: 'ResumeRequest' });

const eventNameError = "expected 'user.' and then 1 to 195 letters, digits, dots, dashes and underscores";
export const newSignal = z
  .object(
    {
      name: z.string({ error: eventNameError }).regex(/^user\.[\w.-]{1,195}$/, eventNameError),
      data: jsonObject('expected an object')
        .default({})
        .describe('Data of the event, for `where` of a gate and for the step.'),
    },
    { error: 'expected an object' },
  )
  .meta({ id: 'NewSignal' });

const id = text.describe('Id of the run: `r<n>`.');
export const pauseRequested = z.object({ id, pause: z.literal('requested') }).meta({ id: 'PauseRequested' });
export const resumed = z.object({ id, resumed: z.literal(true) }).meta({ id: 'Resumed' });
export const dispatched = z.object({ id, dispatched: z.literal(true) }).meta({ id: 'Dispatched' });
export const signalled = z
  .object({ name: text, seq: z.int().describe('Sequence number of the event.') })
  .meta({ id: 'Signalled' });
