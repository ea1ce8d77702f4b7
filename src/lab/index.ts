/** Public interface of the lab: other modules import only this file and `types.ts`. */
export { openLab } from './lab.ts';
