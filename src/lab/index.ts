/** The only door of the lab. */
export { openLab } from './lab.ts';
