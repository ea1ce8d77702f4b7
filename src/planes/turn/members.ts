export * from '../../wires/core/members.ts';
