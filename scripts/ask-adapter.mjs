/** Prints the name of Dawn's adapter, or nothing if there is none. A separate process, because drivers may crash. */
import { create, globals } from 'webgpu';

Object.assign(globalThis, globals);
const adapter = await create([]).requestAdapter();
process.stdout.write(adapter ? adapter.info.description || adapter.info.device || 'an adapter' : '');
