module.exports = (list) => [...list].sort();
