/** Asks Dawn for an adapter and prints its name; nothing when there is none. A process of its own: drivers may crash. */
import { create, globals } from 'webgpu';

Object.assign(globalThis, globals);
const adapter = await create([]).requestAdapter();
process.stdout.write(adapter ? adapter.info.description || adapter.info.device || 'an adapter' : '');
