import { expect, it } from 'vitest';
import { createPinnedLab } from '../../src/planes/agent/pinned-lab.ts';
import { Resident } from '../../src/planes/resident.ts';
import { ScriptedEngine } from '../support/scripted-engine.ts';
import { ScriptedLab } from '../support/scripted-lab.ts';

it.each(['answers', 'fails'])(
  'the model is not swapped while an agent measures, until the lab %s',
  async (how) => {
    const engine = new ScriptedEngine({});
    const lab = new ScriptedLab();
    const loads: string[] = [];
    const other = new ScriptedEngine({});
    Object.assign(other.model, { id: 'other' });
    const resident = new Resident('loading', {
      find: (name) => Promise.resolve(name === 'other' ? { name, location: '/other' } : undefined),
      isNameOfAnother: () => Promise.resolve(false),
      isSame: () => Promise.resolve(false),
      inspect: () => Promise.resolve({ problem: undefined, kind: 'generate' }),
      load: (location) => {
        loads.push(location);
        return Promise.resolve({ engine: other });
      },
    });
    expect(() => createPinnedLab(resident)).toThrow();
    resident.setReady(engine, { location: '/scripted', lab: () => lab });
    const never = new AbortController().signal;
    const measured = Promise.withResolvers<never>();
    lab.runParity = () => measured.promise;
    const parity = createPinnedLab(resident).runParity(never);
    const swapped = resident.acquire('other', { signal: never, finished: Promise.resolve() }, 'generate');
    await new Promise((resolve) => setTimeout(resolve, 20));
    expect(loads).toEqual([]);
    if (how === 'fails') measured.reject(new Error('lost'));
    else measured.resolve({ ok: true } as never);
    await parity.catch(() => undefined);
    await swapped;
    expect(loads).toEqual(['/other']);
  },
);
